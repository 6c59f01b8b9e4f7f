package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// The bounds of the queue: what may wait for a committer, and what one takes into
// a batch.
const (
	maxQueued      = 16 << 10
	maxQueuedBytes = 64 << 20
	// maxQueuedFor is how long the first that waits may have waited when another comes:
	// where the store has fallen so far behind, who comes is told at once, rather than
	// wait beyond its patience for an answer that it no longer reads.
	maxQueuedFor     = 2 * time.Second
	maxBatchCommands = 512
	maxBatchBytes    = 8 << 20
)

// task is one call of Apply.
type task struct {
	ctx     context.Context
	cmds    []lifecycle.Command
	results []storage.Result
	bytes   int
	since   time.Duration // queued
	done    chan struct{}
}

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	t := &task{ctx: ctx, cmds: cmds, results: make([]storage.Result, len(cmds)), done: make(chan struct{})}
	if len(cmds) == 0 {
		return t.results
	}
	for _, cmd := range cmds {
		t.bytes += commandBytes(cmd)
	}
	commit, err := s.queue.push(t)
	if err != nil {
		if errors.Is(err, errQueueFull) {
			s.counters.full.Add(1)
		}
		for i := range t.results {
			t.results[i].Err = err
		}
		return t.results
	}
	if commit {
		s.commitNext() // a lone caller is its own committer, and wakes nobody
	}
	<-t.done // a task taken will be done, and only then is its answer known
	return t.results
}

// commitNext commits a batch, and leaves what came meanwhile to a goroutine.
func (s *Store) commitNext() {
	if s.commitBatch() && s.queue.goOn() {
		go func() {
			for s.commitBatch() {
			}
		}()
	}
}

// commitBatch commits what waits; false where nothing does, and the committer is
// over.
func (s *Store) commitBatch() bool {
	batch := s.queue.take()
	if batch == nil {
		return false
	}
	s.commit(batch)
	for _, t := range batch {
		close(t.done)
	}
	return true
}

// queue is what waits for the committers, bounded in number, in bytes and in time.
// There are as many committers as work needs, up to a limit, and none without.
type queue struct {
	elapsed  func() time.Duration
	mu       sync.Mutex
	over     sync.Cond // a committer is
	tasks    []*task
	commands int
	bytes    int
	closed   bool

	committers, limit int
	// share: a committer takes no more than its part of what waits, so that the others
	// have something to do. Else it takes all that a batch may hold.
	share bool
}

func (q *queue) init(elapsed func() time.Duration, committers int, share bool) {
	q.elapsed = elapsed
	q.over.L = &q.mu
	q.limit = committers
	q.share = share
}

// most is how many commands a committer takes now. The caller holds mu.
func (q *queue) most() int {
	if !q.share {
		return maxBatchCommands
	}
	return min((q.commands+q.limit-1)/q.limit, maxPipelined)
}

var errQueueFull = fmt.Errorf("the store's queue is full: %w", oncekeeper.ErrOverloaded)

// read gives what waits, and who works.
func (q *queue) read(st *Stats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st.QueuedCommands, st.QueuedBytes = int64(q.commands), int64(q.bytes)
	st.Committers, st.CommittersLimit = int64(q.committers), int64(q.limit)
}

// push takes t, and says whether its caller is to be a committer.
func (q *queue) push(t *task) (commit bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, errClosed
	}
	t.since = q.elapsed()
	if len(q.tasks) > 0 && (q.commands+len(t.cmds) > maxQueued || q.bytes+t.bytes > maxQueuedBytes || t.since-q.tasks[0].since > maxQueuedFor) {
		return false, errQueueFull
	}
	q.tasks = append(q.tasks, t)
	q.commands += len(t.cmds)
	q.bytes += t.bytes
	if q.committers == q.limit {
		return false, nil
	}
	q.committers++
	return true, nil
}

// take gives a committer what one batch may hold, in order. Where nothing waits it
// gives nil, and the committer is over.
func (q *queue) take() []*task {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() {
		return nil
	}
	n, commands, bytes := 0, 0, 0
	for most := q.most(); n < len(q.tasks) && commands < most && bytes < maxBatchBytes; n++ {
		commands += len(q.tasks[n].cmds)
		bytes += q.tasks[n].bytes
	}
	batch := append([]*task(nil), q.tasks[:n]...)
	rest := copy(q.tasks, q.tasks[n:])
	clear(q.tasks[rest:])
	q.tasks = q.tasks[:rest]
	q.commands -= commands
	q.bytes -= bytes
	return batch
}

// goOn says whether a committer has more to do; where not it is over.
func (q *queue) goOn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.ended()
}

// ended takes a committer away where nothing waits. The caller holds mu.
func (q *queue) ended() bool {
	if len(q.tasks) > 0 {
		return false
	}
	q.committers--
	q.over.Broadcast()
	return true
}

// close refuses what comes, and returns once what was taken is done.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.committers > 0 {
		q.over.Wait()
	}
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// commandBytes is about what a command holds: its parts of any size, and 512 for
// the rest.
func commandBytes(cmd lifecycle.Command) int {
	switch c := cmd.(type) {
	case lifecycle.Renew:
		return 512 + len(c.Checkpoint)
	case lifecycle.Settle:
		return 512 + storage.ResponseBytes(c.Response) + storage.StatusBytes(c.Status)
	case lifecycle.Resolve:
		return 512 + storage.ResponseBytes(c.Response) + storage.StatusBytes(c.Status)
	default:
		return 512
	}
}
