package clientmetrics

import (
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/metrics"
)

var guardLabel = metrics.Label{Name: "guard", Values: []string{"grpc", "grpc_outgoing", "http"}}

// guardCounts are what guards of every kind count, beside their results.
type guardCounts struct{ superseded, outageReceipts, outageOpen int64 }

var grpcResults = []value[grpcguard.Stats]{
	{"not_guarded", func(s grpcguard.Stats) int64 { return s.NotGuarded }},
	{"stream", func(s grpcguard.Stats) int64 { return s.Streams }},
	{"keyless", func(s grpcguard.Stats) int64 { return s.Keyless }},
	{"ran", func(s grpcguard.Stats) int64 { return s.Ran }},
	{"replayed", func(s grpcguard.Stats) int64 { return s.Replayed }},
	{"not_kept", func(s grpcguard.Stats) int64 { return s.NotKept }},
	{"in_progress", func(s grpcguard.Stats) int64 { return s.InProgress }},
	{"unresolved", func(s grpcguard.Stats) int64 { return s.Unresolved }},
	{"exhausted", func(s grpcguard.Stats) int64 { return s.Exhausted }},
	{"mismatch", func(s grpcguard.Stats) int64 { return s.Mismatch }},
	{"refused", func(s grpcguard.Stats) int64 { return s.Refused }},
	{"unavailable", func(s grpcguard.Stats) int64 { return s.Unavailable }},
	{"left", func(s grpcguard.Stats) int64 { return s.Left }},
}

var httpResults = []value[httpguard.Stats]{
	{"not_guarded", func(s httpguard.Stats) int64 { return s.NotGuarded }},
	{"keyless", func(s httpguard.Stats) int64 { return s.Keyless }},
	{"ran", func(s httpguard.Stats) int64 { return s.Ran }},
	{"replayed", func(s httpguard.Stats) int64 { return s.Replayed }},
	{"not_kept", func(s httpguard.Stats) int64 { return s.NotKept }},
	{"in_progress", func(s httpguard.Stats) int64 { return s.InProgress }},
	{"unresolved", func(s httpguard.Stats) int64 { return s.Unresolved }},
	{"exhausted", func(s httpguard.Stats) int64 { return s.Exhausted }},
	{"mismatch", func(s httpguard.Stats) int64 { return s.Mismatch }},
	{"refused", func(s httpguard.Stats) int64 { return s.Refused }},
	{"unavailable", func(s httpguard.Stats) int64 { return s.Unavailable }},
	{"left", func(s httpguard.Stats) int64 { return s.Left }},
}

var ofGRPC = ofGuard(grpcResults, func(s grpcguard.Stats) guardCounts {
	return guardCounts{s.Superseded, s.OutageReceipts, s.OutageOpen}
})

var ofHTTP = append(ofGuard(httpResults, func(s httpguard.Stats) guardCounts {
	return guardCounts{s.Superseded, s.OutageReceipts, s.OutageOpen}
}),
	told("oncekeeper_guard_answers_cut_total", "Requests that ran and whose answer was not all there, or went out and was too large to keep",
		"`too_large` grows: replays cannot be given; see the policy's `max_response_bytes`", "why", []value[httpguard.Stats]{
			{"not_whole", func(s httpguard.Stats) int64 { return s.NotWhole }},
			{"too_large", func(s httpguard.Stats) int64 { return s.TooLarge }},
		}, guardLabel),
)

// ofGuard are the metrics that guards of every kind have, by the same names.
func ofGuard[S any](results []value[S], counts func(S) guardCounts) []metrics.Reading[S] {
	return []metrics.Reading[S]{
		told("oncekeeper_guard_calls_total",
			"Calls and requests, by what became of them. One that ran may be told again as replayed or unavailable, where its receipt said so when it was closed",
			"`unavailable`: the service gives no verdict. `unresolved`: keys wait for somebody. `mismatch`: a caller uses a key for two requests",
			"result", results, guardLabel),
		number("oncekeeper_guard_superseded_total", "Attempts that ran and whose answer was dropped, since a later attempt's counts", "It grows: attempts outlive their leases",
			func(s S) int64 { return counts(s).superseded }, guardLabel),
		told("oncekeeper_guard_outage_runs_total", "Attempts that ran while the service gave no verdict: under their receipt alone, or unguarded",
			"It grows: the service is out of reach. `nothing`: effects may happen twice", "under", []value[S]{
				{"receipt", func(s S) int64 { return counts(s).outageReceipts }},
				{"nothing", func(s S) int64 { return counts(s).outageOpen }},
			}, guardLabel),
	}
}
