package server

import (
	"github.com/oncekeeper/oncekeeper/metrics"
	"github.com/oncekeeper/oncekeeper/server/internal/answers"
)

// Metrics describes what a server tells a Config's Metrics.
func Metrics() []metrics.Section {
	of := func(of []metrics.Reading[*Server]) []metrics.Metric { return metrics.Of(of) }
	return []metrics.Section{
		{Title: "Calls", Metrics: append(of(callReadings), grpcMetrics...)},
		{Title: "Waiting", Metrics: of(waitReadings)},
		{Title: "The store, seen from the server", Metrics: of(storeReadings)},
		{Title: "Sweeping", Metrics: of(sweepReadings)},
	}
}

var readings = func() (all []metrics.Reading[*Server]) {
	for _, some := range [][]metrics.Reading[*Server]{callReadings, waitReadings, storeReadings, sweepReadings} {
		all = append(all, some...)
	}
	return all
}()

var (
	methodLabel = metrics.Label{Name: "method", Values: newCounts().Methods()}
	callLabel   = metrics.Label{Name: "call", Values: storeCalls[:]}
)

var callReadings = []metrics.Reading[*Server]{
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_verdicts_total", Type: metrics.Counter,
			Help: "What calls were answered, and each item of a batch. A series begins with its first answer",
			Worry: "`takeover`: attempts end with no known outcome. `unresolved`: keys wait for somebody. `mismatch`: a caller uses a key for two requests. " +
				"`fenced`: attempts outlive their leases. `internal`: a fault to report",
			Labels: []metrics.Label{
				methodLabel,
				{Name: "result", Values: answers.Names()},
				{Name: "rule", Means: "the name of the policy's rule, `default` for none, `-` for what is about no one key"},
			},
		},
		Read: func(s *Server, out metrics.Out) {
			s.followPolicy()
			s.counts.Answers(func(method, rule string, v answers.Verdict, n int64) { out.Value(float64(n), method, v.String(), rule) })
		},
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_calls_in_flight", Type: metrics.Gauge,
			Help:   "Calls under way, those that wait included",
			Labels: []metrics.Label{methodLabel},
		},
		Read: func(s *Server, out metrics.Out) {
			s.counts.Flying(func(method string, n int64) { out.Value(float64(n), method) })
		},
	},
}

var waitReadings = []metrics.Reading[*Server]{
	{
		Metric: metrics.Metric{Name: "oncekeeper_waiters", Type: metrics.Gauge, Help: "Begins that wait for another attempt's end, or are about to"},
		Read:   metrics.Number(func(s *Server) float64 { waiters, _ := s.waiting.size(); return float64(waiters) }),
	},
	{
		Metric: metrics.Metric{Name: "oncekeeper_waited_keys", Type: metrics.Gauge, Help: "Keys that they wait for"},
		Read:   metrics.Number(func(s *Server) float64 { _, keys := s.waiting.size(); return float64(keys) }),
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_waiters_refused_total", Type: metrics.Counter,
			Help: "Begins that were answered without waiting, since too many wait", Worry: "It grows: callers poll instead",
			Labels: []metrics.Label{{Name: "bound", Values: []string{"server", "key"}}},
		},
		Read: func(s *Server, out metrics.Out) {
			out.Value(float64(s.waiting.counts.full.Load()), "server")
			out.Value(float64(s.waiting.counts.keyFull.Load()), "key")
		},
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_wakeups_total", Type: metrics.Counter,
			Help:   "How waits ended other than by time: with an answer, with the turn to ask the store, or with the server",
			Labels: []metrics.Label{{Name: "with", Values: []string{"answer", "turn", "end"}}},
		},
		Read: func(s *Server, out metrics.Out) {
			out.Value(float64(s.waiting.counts.answer.Load()), "answer")
			out.Value(float64(s.waiting.counts.turn.Load()), "turn")
			out.Value(float64(s.waiting.counts.closings.Load()), "end")
		},
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_looks_total", Type: metrics.Counter,
			Help:   "Looks at the waited keys in a store that other servers change too, and what they found",
			Worry:  "`failed` grows: waiters hear late of what other servers do",
			Labels: []metrics.Label{{Name: "found", Values: []string{"changed", "same", "failed"}}},
		},
		Read: func(s *Server, out metrics.Out) {
			out.Value(float64(s.watch.counts.changed.Load()), "changed")
			out.Value(float64(s.watch.counts.same.Load()), "same")
			out.Value(float64(s.watch.counts.failed.Load()), "failed")
		},
	},
}

var storeReadings = []metrics.Reading[*Server]{
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_store_call_seconds", Type: metrics.Histogram,
			Help: "How long calls of the store took, its queue included", Worry: "`apply` nears the callers' deadlines",
			Labels: []metrics.Label{callLabel},
		},
		Read: func(s *Server, out metrics.Out) {
			for i, name := range storeCalls {
				out.Times(s.store.calls[i].took.Snapshot(), name)
			}
		},
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_store_calls_in_flight", Type: metrics.Gauge,
			Help: "Calls of the store under way", Worry: "It stays up while nothing finishes: the store hangs",
			Labels: []metrics.Label{callLabel},
		},
		Read: func(s *Server, out metrics.Out) {
			for i, name := range storeCalls {
				out.Value(float64(s.store.calls[i].flying.Load()), name)
			}
		},
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_store_faults_total", Type: metrics.Counter,
			Help:   "Commands, and other calls, that the store gave no verdict on",
			Worry:  "`unavailable`: the store is out of reach, or its disk is full. `overloaded`: its queue is full. `internal`: a fault to report",
			Labels: []metrics.Label{callLabel, {Name: "kind", Values: storeFaults[:]}},
		},
		Read: func(s *Server, out metrics.Out) {
			for i, name := range storeCalls {
				for j, kind := range storeFaults {
					out.Value(float64(s.store.calls[i].faults[j].Load()), name, kind)
				}
			}
		},
	},
}

var sweepReadings = []metrics.Reading[*Server]{
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_swept_records_total", Type: metrics.Counter,
			Help:   "Expired records deleted, by the background sweeper and by operators' sweeps",
			Worry:  "`sweeper` grows at `--sweep-rate` for long: more expires than is deleted",
			Labels: []metrics.Label{{Name: "by", Values: []string{"sweeper", "operator"}}},
		},
		Read: func(s *Server, out metrics.Out) {
			out.Value(float64(s.sweeper.counts.swept.Load()), "sweeper")
			out.Value(float64(s.sweeper.counts.byHand.Load()), "operator")
		},
	},
	{
		Metric: metrics.Metric{Name: "oncekeeper_sweep_runs_total", Type: metrics.Counter, Help: "Runs of the background sweeper that swept all there was"},
		Read:   metrics.Number(func(s *Server) float64 { return float64(s.sweeper.counts.runs.Load()) }),
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_sweep_last_run_timestamp_seconds", Type: metrics.Gauge,
			Help: "When the last such run ended, in Unix time; 0 before the first", Worry: "Many intervals ago: nothing is deleted",
		},
		Read: metrics.Number(func(s *Server) float64 { return float64(s.sweeper.counts.last.Load()) / 1e9 }),
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_sweep_failures_total", Type: metrics.Counter,
			Help: "Runs of the background sweeper that the store broke off", Worry: "It grows",
		},
		Read: metrics.Number(func(s *Server) float64 { return float64(s.sweeper.counts.failed.Load()) }),
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_sweep_stopped", Type: metrics.Gauge,
			Help:  "1 where the store's clock jumped and this server sweeps no more until it is restarted",
			Worry: "It is 1: set the clock right, then restart",
		},
		Read: metrics.Number(func(s *Server) float64 {
			if s.sweeper.counts.stopped.Load() {
				return 1
			}
			return 0
		}),
	},
}

var grpcLabels = []metrics.Label{
	{Name: "grpc_type", Values: []string{"unary", "client_stream", "server_stream", "bidi_stream"}},
	{Name: "grpc_service", Means: "of this server: the two of Oncekeeper, health and reflection"},
	{Name: "grpc_method", Means: "of that service; a name that it does not have is never counted"},
}

// grpcMetrics are go-grpc-middleware's.
var grpcMetrics = []metrics.Metric{
	{Name: "grpc_server_started_total", Type: metrics.Counter, Help: "Calls that began", Labels: grpcLabels},
	{
		Name: "grpc_server_handled_total", Type: metrics.Counter, Help: "Calls that ended, by their status; all but requests that cannot be read",
		Worry:  "`Unavailable`, `ResourceExhausted` or `Internal` grow. `AlreadyExists`, `Aborted` and `FailedPrecondition` are callers' normal life",
		Labels: append(grpcLabels[:3:3], metrics.Label{Name: "grpc_code", Means: "the status, as `OK` or `DeadlineExceeded`"}),
	},
	{Name: "grpc_server_handling_seconds", Type: metrics.Histogram, Help: "How long calls took, those that wait by their own wish included", Labels: grpcLabels},
	{Name: "grpc_server_msg_received_total", Type: metrics.Counter, Help: "Messages that came", Labels: grpcLabels},
	{Name: "grpc_server_msg_sent_total", Type: metrics.Counter, Help: "Messages that went", Labels: grpcLabels},
}
