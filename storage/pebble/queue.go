package pebble

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
)

// The bounds of the queue: what may wait for the committer, and what it takes
// into one batch.
const (
	maxQueuedTasks = 16 << 10
	maxQueuedBytes = 64 << 20
	// maxQueuedFor is how long the first that waits may have waited when another comes:
	// where the store has fallen so far behind, who comes is told at once, rather than
	// wait beyond its patience for an answer that it no longer reads.
	maxQueuedFor  = 2 * time.Second
	maxRoundTasks = 2 << 10
	maxRoundBytes = 8 << 20
	// maxRoundRead bounds the records that a round holds in memory.
	maxRoundRead = 16 << 20
)

// task is a piece of work for the committer.
type task interface {
	// run judges and reads, in the committer, and writes into the round.
	run(r *round)
	// finish is called in the committer once the round's batch is synced, or could
	// not be.
	finish(err error)
	// bytes is about how much memory the task holds while it waits.
	bytes() int
}

type queued struct {
	task  task
	done  chan struct{}
	since time.Duration
}

// queue is what waits for the committer, bounded in number, in bytes and in time.
type queue struct {
	clock  clock.Clock
	mu     sync.Mutex
	ready  sync.Cond
	tasks  []queued
	bytes  int
	closed bool
}

var errQueueFull = fmt.Errorf("the store's queue is full: %w", oncekeeper.ErrOverloaded)

func (q *queue) init(c clock.Clock) { q.clock, q.ready.L = c, &q.mu }

func (q *queue) push(t task) (done chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("the store is closed: %w", oncekeeper.ErrStoreUnavailable)
	}
	size, now := t.bytes(), q.clock.Monotonic()
	if len(q.tasks) > 0 && (len(q.tasks) >= maxQueuedTasks || q.bytes+size > maxQueuedBytes || now-q.tasks[0].since > maxQueuedFor) {
		return nil, errQueueFull
	}
	done = make(chan struct{})
	q.tasks = append(q.tasks, queued{task: t, done: done, since: now})
	q.bytes += size
	q.ready.Signal()
	return done, nil
}

// take waits for work and gives what one batch may hold, in order; false once
// the queue is closed and empty.
func (q *queue) take(into []queued) ([]queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 && !q.closed {
		q.ready.Wait()
	}
	n, size := 0, 0
	for n < len(q.tasks) && n < maxRoundTasks && size < maxRoundBytes {
		size += q.tasks[n].task.bytes()
		n++
	}
	into = append(into[:0], q.tasks[:n]...)
	rest := copy(q.tasks, q.tasks[n:])
	clear(q.tasks[rest:])
	q.tasks = q.tasks[:rest]
	q.bytes -= size
	return into, n > 0
}

// size gives what waits, in calls and in bytes.
func (q *queue) size() (calls, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(len(q.tasks)), int64(q.bytes)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}

// do has the committer do t and waits until it is done. It does not end early:
// a task taken will be done, and only then is its answer known.
func (s *Store) do(t task) error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	done, err := s.queue.push(t)
	if err != nil {
		if errors.Is(err, errQueueFull) {
			s.counters.full.Add(1)
		}
		return err
	}
	<-done
	return nil
}
