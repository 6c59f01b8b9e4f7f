// Package coalesce has calls of one kind that wait share one, as a committer's
// callers share a sync: the next call leaves when the answer to the last one came,
// so that a lone caller waits for nobody and many share few.
//
// It knows neither the service nor gRPC. What a call is, and what to make of its
// error, is its owner's.
package coalesce

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
)

// The bounds of what is shared.
const (
	// MaxItems is how many share one call.
	MaxItems = 256
	// MaxBytes bounds the items of one call together.
	MaxBytes = 1 << 20
	// MaxItemBytes is the largest item that is shared: to send a larger one costs
	// more than to send it alone.
	MaxItemBytes = 64 << 10
	// MaxQueued is how many wait for their turn. Whoever comes then goes alone.
	MaxQueued = 16 * MaxItems
	// MaxUnderWay is how many calls are under way at once. One more than one, so that
	// a call which hangs does not hold up the others.
	MaxUnderWay = 2
	// MaxTurn is how long an item waits for its turn. Then it goes alone: all calls
	// under way hang, at one server of several perhaps, and the next may not.
	MaxTurn = time.Second
)

// ErrNotSent: the caller left before its item was sent.
var ErrNotSent = errors.New("it was not sent")

// errLate: the item waited too long for its turn, and is out of the queue.
var errLate = errors.New("no turn in time")

// Item is what one caller asks.
type Item[Q any] struct {
	// Ask may be read after its caller has left, who must not change it then.
	Ask Q
	// Key: two items of one key never share a call.
	Key oncekeeper.Key
	// With: items that differ in it never share a call.
	With string
	// Bytes is about its size.
	Bytes int
}

// Answer is one item's.
type Answer[A any] struct {
	Value A
	Err   error
	// Alone: what was asked is to be asked again, alone.
	Alone bool
}

// Together makes one call of many items, and gives an answer for each, in order.
// Its context has the values of none of the callers, and ends when all have left.
type Together[Q, A any] func(ctx context.Context, asked []Q) []Answer[A]

// Sharer is where callers meet. It has a goroutine while a shared call is under
// way, and needs no closing.
type Sharer[Q, A any] struct {
	together Together[Q, A]
	clock    clock.Clock

	mu sync.Mutex
	// queue is what waits; something does only while MaxUnderWay calls are under way.
	queue    []*waiting[Q, A]
	underWay int
}

// New makes a Sharer of calls that together makes.
func New[Q, A any](together Together[Q, A], c clock.Clock) *Sharer[Q, A] {
	return &Sharer[Q, A]{together: together, clock: c}
}

// waiting is an item in the queue, and then in a call.
type waiting[Q, A any] struct {
	Item[Q]
	// turn is closed when answer may be read, or, where leads is set, when the item
	// is to be asked alone, as one of the calls under way.
	turn   chan struct{}
	leads  bool
	answer Answer[A]
	// in is the call that it was sent in; nil while it is queued.
	in *batch[Q, A]
}

// batch is a shared call.
type batch[Q, A any] struct {
	items []*waiting[Q, A]
	// present counts the callers that have not left.
	present int
	cancel  context.CancelFunc
}

// Ask has item asked: by alone, in this goroutine, where fewer than MaxUnderWay
// calls are under way or MaxTurn is over, or in a call that it shares. It waits for
// its turn until caller or ctx ends, and for the answer until ctx does; then it gives
// ErrNotSent, or ctx's error. A caller that leaves ends nobody else's call.
func (s *Sharer[Q, A]) Ask(caller, ctx context.Context, item Item[Q], alone func() (A, error)) (A, error) {
	if item.Bytes > MaxItemBytes {
		return alone()
	}
	w, leads := s.enter(item)
	if leads {
		return s.lead(alone)
	}
	if w == nil {
		return alone()
	}
	switch err := s.await(caller, ctx, w); {
	case errors.Is(err, errLate):
		return alone()
	case err != nil:
		var none A
		return none, err
	case w.leads:
		return s.lead(alone)
	case w.answer.Alone:
		return alone()
	default:
		return w.answer.Value, w.answer.Err
	}
}

// await waits until w has its turn or its answer; an error says that its caller
// has left, or is to ask alone.
func (s *Sharer[Q, A]) await(caller, ctx context.Context, w *waiting[Q, A]) error {
	late := make(chan struct{})
	timer := s.clock.AfterFunc(MaxTurn, func() { close(late) })
	defer timer.Stop()
	why := ErrNotSent
	select {
	case <-w.turn:
		return nil
	case <-caller.Done():
	case <-ctx.Done():
	case <-late:
		why = errLate
	}
	if s.withdraw(w) {
		return why
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	if s.leave(w) {
		return ctx.Err()
	}
	return nil
}

// enter lets item lead a call, or queues it; neither where the queue is full.
func (s *Sharer[Q, A]) enter(item Item[Q]) (w *waiting[Q, A], leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.underWay < MaxUnderWay:
		s.underWay++
		return nil, true
	case len(s.queue) == MaxQueued:
		return nil, false
	}
	w = &waiting[Q, A]{Item: item, turn: make(chan struct{})}
	s.queue = append(s.queue, w)
	return w, false
}

// Waiting is how many wait for their turn.
func (s *Sharer[Q, A]) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// lead asks alone, as one of the calls under way, and has the next leave when that
// is over, however it is.
func (s *Sharer[Q, A]) lead(alone func() (A, error)) (A, error) {
	defer func() {
		if next := s.next(); next != nil {
			go s.send(next)
		}
	}()
	return alone()
}

// send makes shared calls for as long as there are any to make.
func (s *Sharer[Q, A]) send(b *batch[Q, A]) {
	for b != nil {
		s.share(b)
		b = s.next()
	}
}

// next takes what the next call is to hold. It gives nil where nobody waits, or
// only one, who is told to lead.
func (s *Sharer[Q, A]) next() *batch[Q, A] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []*waiting[Q, A]
	taken, s.queue = pick(s.queue)
	if len(taken) == 0 {
		s.underWay--
		return nil
	}
	b := &batch[Q, A]{items: taken, present: len(taken), cancel: func() {}}
	for _, w := range taken {
		w.in = b
	}
	if len(taken) == 1 {
		taken[0].leads = true
		close(taken[0].turn)
		return nil
	}
	return b
}

// share makes one call for all of b.
func (s *Sharer[Q, A]) share(b *batch[Q, A]) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	b.cancel = cancel
	if b.present == 0 {
		cancel()
	}
	s.mu.Unlock()
	asked := make([]Q, len(b.items))
	for i, w := range b.items {
		asked[i] = w.Ask
	}
	for i, a := range s.together(ctx, asked) {
		b.items[i].answer = a
		close(b.items[i].turn)
	}
}

// withdraw takes w out of the queue; false where it was sent before.
func (s *Sharer[Q, A]) withdraw(w *waiting[Q, A]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.in != nil {
		return false
	}
	for i, queued := range s.queue {
		if queued == w {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			break
		}
	}
	return true
}

// leave says that nobody waits for w's answer any more; false where it has come,
// or where it is to lead.
func (s *Sharer[Q, A]) leave(w *waiting[Q, A]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.turn:
		return false
	default:
	}
	if w.in.present--; w.in.present == 0 {
		w.in.cancel()
	}
	return true
}
