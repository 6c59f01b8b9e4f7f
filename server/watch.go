package server

import (
	"context"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/storage"
)

// How often the keys that are waited for are looked at: the longer the less of
// them changed. A look is a read of the records and one of the clock, so waiting
// costs at most 40 statements a second, however many wait and whatever changes.
const (
	minWatch = 50 * time.Millisecond
	maxWatch = 100 * time.Millisecond
)

// watcher looks, now and then, at the keys that are waited for, in a store that
// other servers change too: one read for all keys, whose records are published to
// the waiters. It looks at nothing while nobody waits.
type watcher struct {
	store   storage.Store
	waiting *waiting
	clock   clock.Clock
	// failed is told a read's error.
	failed func(context.Context, error)
	kick   chan struct{}
	counts lookCounts
}

func newWatcher(s *Server) *watcher {
	return &watcher{store: s.store, waiting: s.waiting, clock: s.clock, failed: s.logUnasked, kick: make(chan struct{}, 1)}
}

// start begins to watch, and gives what ends it and waits until it has ended.
func (w *watcher) start() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

// awake is told that somebody waits.
func (w *watcher) awake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run looks at nothing where the store changes by this server's hand alone, which
// tells its waiters itself.
func (w *watcher) run(ctx context.Context) {
	pause := minWatch
	for w.somebodyWaits(ctx) && w.store.Shared() {
		for clock.Sleep(ctx, w.clock, pause) == nil {
			keys, anybody := w.waiting.awaited()
			if !anybody {
				pause = minWatch
				break
			}
			if len(keys) > 0 && w.look(ctx, keys) {
				pause = minWatch
			} else {
				pause = min(2*pause, maxWatch)
			}
		}
	}
}

// somebodyWaits returns once it is so; false where ctx ends first.
func (w *watcher) somebodyWaits(ctx context.Context) bool {
	select {
	case <-w.kick:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// look publishes what the store has of keys, and says whether any of it was new.
func (w *watcher) look(ctx context.Context, keys []oncekeeper.Key) bool {
	found, err := w.store.Read(ctx, keys...)
	if err != nil {
		if ctx.Err() == nil {
			w.counts.failed.Add(1)
			w.failed(ctx, err)
		}
		return false
	}
	anew := false
	for i, key := range keys {
		res := storage.Result{Record: found.Records[i], Now: found.Now}
		anew = w.waiting.changed(key, res) || anew
		w.waiting.publish(key, res)
	}
	if anew {
		w.counts.changed.Add(1)
	} else {
		w.counts.same.Add(1)
	}
	return anew
}

// awaited gives the keys that a waiter sleeps for while no other asks the store on
// their behalf, and whether anybody waits for any: who is asked for now may sleep on,
// and wakes nobody then.
func (q *waiting) awaited() (keys []oncekeeper.Key, anybody bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, l := range q.keys {
		if len(l.asleep) > 0 && l.turn == nil {
			keys = append(keys, key)
		}
	}
	return keys, q.all > 0
}

// changed says whether res has another version of the record than the last one
// seen.
func (q *waiting) changed(key oncekeeper.Key, res storage.Result) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[key]
	if l == nil {
		return false
	}
	before, after := l.latest.Record, res.Record
	return (before == nil) != (after == nil) || before != nil && before.Etag() != after.Etag()
}

// logUnasked logs a fault of what the server does by itself, where nobody is told.
func (s *Server) logUnasked(ctx context.Context, err error) {
	if sentinel, ok := oncekeeper.SentinelOf(err); ok {
		s.logFault(ctx, sentinel, err)
		return
	}
	s.log.ErrorContext(ctx, "a fault that nobody foresaw: please report it", "error", err)
}
