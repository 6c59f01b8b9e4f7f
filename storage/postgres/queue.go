package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// The bounds of the queue: what may wait for a committer, and what one takes into
// a batch.
const (
	maxQueued        = 16 << 10
	maxQueuedBytes   = 64 << 20
	maxBatchCommands = 512
	maxBatchBytes    = 8 << 20
)

// task is one call of Apply.
type task struct {
	ctx     context.Context
	cmds    []lifecycle.Command
	results []storage.Result
	bytes   int
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
	if err := s.queue.push(t); err != nil {
		for i := range t.results {
			t.results[i].Err = err
		}
		return t.results
	}
	<-t.done // a task taken will be done, and only then is its answer known
	return t.results
}

// queue is what waits for the committers, bounded in number and in bytes.
type queue struct {
	mu       sync.Mutex
	ready    sync.Cond
	tasks    []*task
	commands int
	bytes    int
	closed   bool
}

func (q *queue) init() { q.ready.L = &q.mu }

func (q *queue) push(t *task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	if len(q.tasks) > 0 && (q.commands+len(t.cmds) > maxQueued || q.bytes+t.bytes > maxQueuedBytes) {
		return fmt.Errorf("the store's queue is full: %w", oncekeeper.ErrOverloaded)
	}
	q.tasks = append(q.tasks, t)
	q.commands += len(t.cmds)
	q.bytes += t.bytes
	q.ready.Signal()
	return nil
}

// take waits for work and gives what one batch may hold, in order; false once the
// queue is closed and empty.
func (q *queue) take() ([]*task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 && !q.closed {
		q.ready.Wait()
	}
	n, commands, bytes := 0, 0, 0
	for n < len(q.tasks) && commands < maxBatchCommands && bytes < maxBatchBytes {
		commands += len(q.tasks[n].cmds)
		bytes += q.tasks[n].bytes
		n++
	}
	batch := append([]*task(nil), q.tasks[:n]...)
	rest := copy(q.tasks, q.tasks[n:])
	clear(q.tasks[rest:])
	q.tasks = q.tasks[:rest]
	q.commands -= commands
	q.bytes -= bytes
	return batch, n > 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
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
		return 512 + outcomeBytes(c.Response, c.Status)
	case lifecycle.Resolve:
		return 512 + outcomeBytes(c.Response, c.Status)
	default:
		return 512
	}
}

func outcomeBytes(r *oncekeeper.Response, s *oncekeeper.Status) int {
	size := 0
	if r != nil {
		size += len(r.Body)
		for _, m := range r.Metadata {
			size += len(m.Name) + len(m.Value)
		}
	}
	if s != nil {
		size += len(s.Message)
		for _, d := range s.Details {
			size += len(d)
		}
	}
	return size
}
