package storemetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekeeper/oncekeeper/metrics"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

// Postgres collects the numbers of a store in Postgres.
func Postgres(s *postgres.Store) prometheus.Collector { return metrics.Collect(s.Stats, ofPostgres) }

// counts gives the counts of one kind of thing, each by its name.
func counts(out metrics.Out, names []string, of []int64) {
	for i, name := range names {
		out.Value(float64(of[i]), name)
	}
}

var ofPostgres = []metrics.Reading[postgres.Stats]{
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_postgres_commands_total", Type: metrics.Counter,
			Help: "Commands, by the path that they went: `fast`, by one INSERT or UPDATE; `look`, from a plain read, since they change nothing; " +
				"`locked`, judged under the lock of their key; `failed`, not judged, or not known",
			Worry:  "`failed` grows; `locked` is much of the whole: that path is slower",
			Labels: []metrics.Label{{Name: "path", Values: postgres.PathNames[:]}},
		},
		Read: func(s postgres.Stats, out metrics.Out) { counts(out, postgres.PathNames[:], s.Commands[:]) },
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_postgres_trips_total", Type: metrics.Counter, Help: "Times that a connection was used, by what for; of a read that met a dead one, twice",
			Labels: []metrics.Label{{Name: "for", Values: postgres.TripNames[:]}},
		},
		Read: func(s postgres.Stats, out metrics.Out) { counts(out, postgres.TripNames[:], s.Trips[:]) },
	},
	{
		Metric: metrics.Metric{Name: "oncekeeper_postgres_batch_commands", Type: metrics.Histogram, Help: "Batches, by how many commands each had: calls under load share one"},
		Read:   func(s postgres.Stats, out metrics.Out) { out.Sizes(s.Batches) },
	},
	{
		Metric: metrics.Metric{Name: "oncekeeper_postgres_batch_seconds", Type: metrics.Histogram, Help: "How long each took, tries included", Worry: "It grows: every call waits for it"},
		Read:   func(s postgres.Stats, out metrics.Out) { out.Times(s.Took) },
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_postgres_retries_total", Type: metrics.Counter,
			Help:   "Tries again of what others got in the way of: 40001, 40P01, a server that became read-only, a record that came to be meanwhile, a connection that broke",
			Worry:  "`deadlock` grows for long: who else writes to the table? `demoted` grows: the address leads to a standby",
			Labels: []metrics.Label{{Name: "cause", Values: postgres.RetryNames[:]}},
		},
		Read: func(s postgres.Stats, out metrics.Out) { counts(out, postgres.RetryNames[:], s.Retries[:]) },
	},
	number("oncekeeper_postgres_lost_answers_total", metrics.Counter, "Commits whose answer was lost: their callers are told to ask again", "It grows outside a failover", func(s postgres.Stats) int64 { return s.LostAnswers }),
	number("oncekeeper_postgres_unreplicated_total", metrics.Counter, "Times that the database warned, as of a commit that did not wait for its standby", "It grows: somebody cancels commits that wait for the standby", func(s postgres.Stats) int64 { return s.Unreplicated }),
	number("oncekeeper_postgres_down", metrics.Gauge, "1 where no connection could be made of late, and few are tried for", "It stays 1: the database is out of reach", func(s postgres.Stats) int64 { return flag(s.Down) }),
	number("oncekeeper_postgres_queue_commands", metrics.Gauge, "Commands that wait for a committer", "It nears the limit, 16384", func(s postgres.Stats) int64 { return s.QueuedCommands }),
	number("oncekeeper_postgres_queue_bytes", metrics.Gauge, "What they hold", "It nears the limit, 64 MiB", func(s postgres.Stats) int64 { return s.QueuedBytes }),
	number("oncekeeper_postgres_queue_full_total", metrics.Counter, "Calls that found no room and were answered OVERLOADED", "It grows", func(s postgres.Stats) int64 { return s.QueueFull }),
	number("oncekeeper_postgres_committers", metrics.Gauge, "Batches under way", "", func(s postgres.Stats) int64 { return s.Committers }),
	number("oncekeeper_postgres_committers_limit", metrics.Gauge, "The most of them at once", "", func(s postgres.Stats) int64 { return s.CommittersLimit }),
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_postgres_connections", Type: metrics.Gauge, Help: "Connections of the pool", Worry: "`idle` is 0 for long and waits grow: allow more, by `pool_max_conns`",
			Labels: []metrics.Label{{Name: "state", Values: []string{"in_use", "idle", "other"}}},
		},
		Read: func(s postgres.Stats, out metrics.Out) {
			out.Value(float64(s.InUse), "in_use")
			out.Value(float64(s.Idle), "idle")
			out.Value(float64(max(0, s.Conns-s.InUse-s.Idle)), "other")
		},
	},
	number("oncekeeper_postgres_connections_limit", metrics.Gauge, "The most that there may be", "", func(s postgres.Stats) int64 { return s.MaxConns }),
	number("oncekeeper_postgres_connections_made_total", metrics.Counter, "Connections made", "It grows fast: something ends them", func(s postgres.Stats) int64 { return s.Made }),
	number("oncekeeper_postgres_connection_waits_total", metrics.Counter, "Times that a connection was waited for, until one was made or given back", "", func(s postgres.Stats) int64 { return s.Waits }),
	{
		Metric: metrics.Metric{Name: "oncekeeper_postgres_connection_wait_seconds_total", Type: metrics.Counter, Help: "How long they were waited for"},
		Read:   metrics.Number(func(s postgres.Stats) float64 { return s.WaitTime.Seconds() }),
	},
}
