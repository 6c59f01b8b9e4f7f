package pebble

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper/internal/tally"
)

// Stats are a store's own numbers, since it was opened.
type Stats struct {
	// Commits counts batches that were synced, by how many records each changed;
	// Syncs how long each took, in nanoseconds.
	Commits, Syncs tally.Buckets
	// Queued calls, and about how many bytes they hold; QueueFull: calls that found
	// no room. The limits are MaxQueued and MaxQueuedBytes.
	QueuedCalls, QueuedBytes, QueueFull int64
	// Failed: a write or a read found what ends the store; see Config.OnFatal.
	Failed bool
	// FreeBytes of the disk; -1 where that cannot be told, as in memory.
	FreeBytes int64
	// DiskBytes that the directory takes; WALBytes of it are the write-ahead log.
	DiskBytes, WALBytes int64
	// MemTableBytes of memory hold what is in the log alone.
	MemTableBytes int64
	// Compactions that ended, and DebtBytes that are left to compact.
	Compactions, DebtBytes int64
	// L0Sublevels that a read looks through; writes are slowed down where they are
	// many.
	L0Sublevels int64
	// CacheHits and CacheMisses of blocks.
	CacheHits, CacheMisses int64
	// Tombstones that deletes left and compactions have not yet taken, about.
	Tombstones int64
}

// MaxQueued and MaxQueuedBytes bound the queue.
const (
	MaxQueued      = maxQueuedTasks
	MaxQueuedBytes = maxQueuedBytes
)

// counters are what the committer and the queue count.
type counters struct {
	commits, syncs *tally.Histogram
	full           atomic.Int64
}

func newCounters() counters {
	return counters{commits: tally.New(1, 4, 16, 64, 256, 1024, 4096), syncs: tally.NewTimes()}
}

func (c *counters) committed(records int, took time.Duration) {
	c.commits.Add(int64(records))
	c.syncs.Add(int64(took))
}

// Stats gives the store's numbers. It may be called at any time, after Close too;
// what the engine counts is 0 then.
func (s *Store) Stats() Stats {
	st := Stats{
		Commits: s.counters.commits.Snapshot(), Syncs: s.counters.syncs.Snapshot(), QueueFull: s.counters.full.Load(),
		Failed: s.failure.Load() != nil, FreeBytes: -1,
	}
	st.QueuedCalls, st.QueuedBytes = s.queue.size()
	if free, err := s.freeBytes(); err == nil && free != ^uint64(0) {
		st.FreeBytes = int64(free)
	}
	s.scans.RLock() // Close waits
	defer s.scans.RUnlock()
	if s.closed || st.Failed {
		return st
	}
	_ = s.guarded(func() error {
		st.readEngine(s.db.Metrics())
		return nil
	})
	return st
}

func (st *Stats) readEngine(m *pebble.Metrics) {
	// Of the log that is being written, the engine's physical size is as it was made.
	grown := max(m.WAL.Size, m.WAL.PhysicalSize) - m.WAL.PhysicalSize
	st.DiskBytes = int64(m.DiskSpaceUsage() + grown)
	st.WALBytes = int64(m.WAL.PhysicalSize + m.WAL.ObsoletePhysicalSize + grown)
	st.MemTableBytes = int64(m.MemTable.Size)
	st.Compactions, st.DebtBytes = m.Compact.Count, int64(m.Compact.EstimatedDebt)
	st.L0Sublevels = int64(m.Levels[0].Sublevels)
	st.CacheHits, st.CacheMisses = m.BlockCache.Hits, m.BlockCache.Misses
	st.Tombstones = int64(m.Keys.TombstoneCount)
}
