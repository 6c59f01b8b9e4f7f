package postgres

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekeeper/oncekeeper/internal/tally"
)

// Stats are a store's own numbers, since it was opened.
type Stats struct {
	// Batches counts what committers took together, by how many commands each had;
	// Took how long each took, in nanoseconds, tries and waits included.
	Batches, Took tally.Buckets
	// Commands that were answered, by the path that they took.
	Commands [paths]int64
	// Trips counts how often a connection was used, by what for.
	Trips [trips]int64
	// Retries of what others got in the way of, by cause.
	Retries [retries]int64
	// LostAnswers: nothing is known of a commit. Unreplicated: the database warned
	// that one did not wait for its standby.
	LostAnswers, Unreplicated int64
	// Queued commands, and about how many bytes they hold; QueueFull: calls that
	// found no room. The limits are MaxQueued and MaxQueuedBytes.
	QueuedCommands, QueuedBytes, QueueFull int64
	// Committers at work, of CommittersLimit.
	Committers, CommittersLimit int64
	// Down: there is no connection, and the last one that was tried for could not be
	// made, however long ago: who asks seldom must see it too.
	Down bool
	// The pool: connections that there are, of those in use and idle, and the most
	// that there may be. Made: connections made; Waits: how often one was waited for.
	Conns, InUse, Idle, MaxConns, Made, Waits int64
	// WaitTime is how long connections were waited for, those that had to be made
	// included.
	WaitTime time.Duration
}

// MaxQueued commands, and MaxQueuedBytes, bound the queue.
const (
	MaxQueued      = maxQueued
	MaxQueuedBytes = maxQueuedBytes
)

// The paths of a command.
const (
	pathFast   = iota // by one INSERT or UPDATE
	pathLook          // from a plain read: it changes nothing
	pathLocked        // judged under its key's lock
	pathFailed        // not judged, or not known
	paths
)

// The kinds of trips.
const (
	tripFast = iota
	tripLook
	tripLocked
	tripRead
	tripList
	tripSweep
	tripPing
	trips
)

// The causes of retries.
const (
	retrySerialization = iota
	retryDeadlock
	retryDemoted // the server became read-only
	retryOvertaken
	retryOther
	retries
)

// The names of what Stats counts by.
var (
	PathNames  = [paths]string{pathFast: "fast", pathLook: "look", pathLocked: "locked", pathFailed: "failed"}
	TripNames  = [trips]string{tripFast: "fast", tripLook: "look", tripLocked: "locked", tripRead: "read", tripList: "list", tripSweep: "sweep", tripPing: "ping"}
	RetryNames = [retries]string{
		retrySerialization: "serialization", retryDeadlock: "deadlock", retryDemoted: "demoted", retryOvertaken: "overtaken", retryOther: "other",
	}
)

type counters struct {
	batches, took            *tally.Histogram
	commands                 [paths]atomic.Int64
	trips                    [trips]atomic.Int64
	retries                  [retries]atomic.Int64
	lost, unreplicated, full atomic.Int64
}

func newCounters() counters {
	return counters{batches: tally.New(1, 4, 16, 64, 256, 1024), took: tally.NewTimes()}
}

// answered counts the commands of all.
func (c *counters) answered(path int, all ...*work) {
	n := 0
	for _, w := range all {
		n += len(w.calls)
	}
	c.commands[path].Add(int64(n))
}

func (c *counters) committed(batch []*task, took time.Duration) {
	n := 0
	for _, t := range batch {
		n += len(t.cmds)
	}
	c.batches.Add(int64(n))
	c.took.Add(int64(took))
}

// retried counts that what met err is tried again.
func (c *counters) retried(err error) {
	cause := retryOther
	fault := (*pgconn.PgError)(nil)
	switch {
	case errors.Is(err, errOvertaken):
		cause = retryOvertaken
	case !errors.As(err, &fault):
	case fault.Code == serializationFailure:
		cause = retrySerialization
	case fault.Code == deadlockDetected:
		cause = retryDeadlock
	case fault.Code == readOnlyTransaction:
		cause = retryDemoted
	}
	c.retries[cause].Add(1)
}

// Stats gives the store's numbers. It may be called at any time, after Close too.
func (s *Store) Stats() Stats {
	c, pool := &s.counters, s.pool.Stat()
	st := Stats{
		Batches: c.batches.Snapshot(), Took: c.took.Snapshot(),
		LostAnswers: c.lost.Load(), Unreplicated: c.unreplicated.Load(), QueueFull: c.full.Load(),
		Down:  s.down.fails() && s.connections() == 0,
		Conns: int64(pool.TotalConns()), InUse: int64(pool.AcquiredConns()), Idle: int64(pool.IdleConns()), MaxConns: int64(pool.MaxConns()),
		Made: pool.NewConnsCount(), Waits: pool.EmptyAcquireCount(), WaitTime: pool.EmptyAcquireWaitTime(),
	}
	for i := range st.Commands {
		st.Commands[i] = c.commands[i].Load()
	}
	for i := range st.Trips {
		st.Trips[i] = c.trips[i].Load()
	}
	for i := range st.Retries {
		st.Retries[i] = c.retries[i].Load()
	}
	s.queue.read(&st)
	return st
}
