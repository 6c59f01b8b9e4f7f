// Package storemetrics shows the stores' own numbers. It is apart from the stores,
// which count and know nobody who reads, and apart from the server, which knows no
// concrete store.
package storemetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekeeper/oncekeeper/metrics"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// Pebble collects the numbers of an embedded store, also of one in memory.
func Pebble(s *pebble.Store) prometheus.Collector { return metrics.Collect(s.Stats, ofPebble) }

// Metrics describes what the collectors of this package give.
func Metrics() []metrics.Section {
	return []metrics.Section{
		{Title: "The embedded store", Text: "Of `pebble:DIR` and `memory:`.", Metrics: metrics.Of(ofPebble)},
		{Title: "Postgres", Text: "Of `postgres://…`, as this server sees it.", Metrics: metrics.Of(ofPostgres)},
	}
}

// number reads a metric that has one series and no worry beyond its own words.
func number[S any](name string, as metrics.Type, help, worry string, read func(S) int64) metrics.Reading[S] {
	return metrics.Reading[S]{
		Metric: metrics.Metric{Name: name, Type: as, Help: help, Worry: worry},
		Read:   metrics.Number(func(s S) float64 { return float64(read(s)) }),
	}
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

var ofPebble = []metrics.Reading[pebble.Stats]{
	{
		Metric: metrics.Metric{Name: "oncekeeper_pebble_commit_records", Type: metrics.Histogram, Help: "Synced batches, by how many records each changed: calls under load share one"},
		Read:   func(s pebble.Stats, out metrics.Out) { out.Sizes(s.Commits) },
	},
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_pebble_sync_seconds", Type: metrics.Histogram, Help: "How long each took to be on disk",
			Worry: "It grows: every call waits for it, and the disk is slow",
		},
		Read: func(s pebble.Stats, out metrics.Out) { out.Times(s.Syncs) },
	},
	number("oncekeeper_pebble_queue_calls", metrics.Gauge, "Calls that wait for the committer", "It nears the limit, 16384", func(s pebble.Stats) int64 { return s.QueuedCalls }),
	number("oncekeeper_pebble_queue_bytes", metrics.Gauge, "What they hold", "It nears the limit, 64 MiB", func(s pebble.Stats) int64 { return s.QueuedBytes }),
	number("oncekeeper_pebble_queue_full_total", metrics.Counter, "Calls that found no room and were answered OVERLOADED", "It grows", func(s pebble.Stats) int64 { return s.QueueFull }),
	number("oncekeeper_pebble_failed", metrics.Gauge, "1 where a write failed or a file is damaged: the process is about to end", "It is 1: see the log", func(s pebble.Stats) int64 { return flag(s.Failed) }),
	number("oncekeeper_pebble_free_bytes", metrics.Gauge, "Free bytes of the disk; -1 in memory", "Below 128 MiB nothing is begun", func(s pebble.Stats) int64 { return s.FreeBytes }),
	number("oncekeeper_pebble_disk_bytes", metrics.Gauge, "Bytes that the data directory takes", "It grows while the load does not: look at the sweeper", func(s pebble.Stats) int64 { return s.DiskBytes }),
	number("oncekeeper_pebble_wal_bytes", metrics.Gauge, "Bytes of it that are the write-ahead log", "", func(s pebble.Stats) int64 { return s.WALBytes }),
	number("oncekeeper_pebble_memtable_bytes", metrics.Gauge, "Bytes of memory for what is only in the log", "", func(s pebble.Stats) int64 { return s.MemTableBytes }),
	number("oncekeeper_pebble_compactions_total", metrics.Counter, "Compactions that ended", "", func(s pebble.Stats) int64 { return s.Compactions }),
	number("oncekeeper_pebble_compaction_debt_bytes", metrics.Gauge, "Bytes that are left to compact, by estimate", "It grows for hours: the disk cannot keep up", func(s pebble.Stats) int64 { return s.DebtBytes }),
	number("oncekeeper_pebble_l0_sublevels", metrics.Gauge, "Layers of fresh tables that a read looks through", "It nears 12: writes are held back", func(s pebble.Stats) int64 { return s.L0Sublevels }),
	number("oncekeeper_pebble_tombstones", metrics.Gauge, "Deletes that still take room, by estimate", "", func(s pebble.Stats) int64 { return s.Tombstones }),
	{
		Metric: metrics.Metric{
			Name: "oncekeeper_pebble_cache_reads_total", Type: metrics.Counter, Help: "Blocks that were read, by whether the cache had them",
			Labels: []metrics.Label{{Name: "from", Values: []string{"cache", "disk"}}},
		},
		Read: func(s pebble.Stats, out metrics.Out) {
			out.Value(float64(s.CacheHits), "cache")
			out.Value(float64(s.CacheMisses), "disk")
		},
	},
}
