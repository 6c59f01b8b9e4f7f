package client

import (
	"context"
	"errors"
	"sync"

	"github.com/oncekeeper/oncekeeper"
)

// Item is one operation of a batch.
type Item struct {
	Key oncekeeper.Key
	// Options are of this item alone, after those of all; WithFingerprint, mostly.
	Options []DoOption
}

// ItemResult is what became of one item: what Do would give for it.
type ItemResult[T any] struct {
	Value T
	Err   error
}

// BatchAttempt is the attempt of one item that was granted. Its function says how it
// ended by one of Done, Failed and NotRun; what is said last counts.
type BatchAttempt[T any] struct {
	*Attempt
	// Item is the index of its item in what DoBatch was given.
	Item int

	granted *Granted
	mu      sync.Mutex
	said    said[T]
}

// Context is of this attempt alone: see Granted.Context. InTx and derived keys of
// what the item calls are to be given it.
func (a *BatchAttempt[T]) Context() context.Context { return a.granted.ctx }

// Done says that the operation happened, and gave value.
func (a *BatchAttempt[T]) Done(value T) { a.say(said[T]{done: true, value: value}) }

// Failed says that it failed, as the function of Do does by its error: Final,
// NotApplied, or not known. nil is as good as not to have said anything.
func (a *BatchAttempt[T]) Failed(err error) { a.say(said[T]{failure: err}) }

// NotRun says that nothing was done of the item, because of why (nil: no reason): it
// is given back, counts as no attempt, and its error is ErrNotRun with why.
func (a *BatchAttempt[T]) NotRun(why error) { a.say(said[T]{notRun: true, failure: why}) }

// said is what a function said of one attempt.
type said[T any] struct {
	done, notRun bool
	value        T
	failure      error
}

func (a *BatchAttempt[T]) say(s said[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = s
}

var errNotSaid = errors.New("oncekeeper: the batch's function returned, and did not say how this item ended")

// DoBatch is Do for many operations at once, for a consumer that takes a slice of
// messages and has one transaction for all that it may run: begun by one call, run by
// one call of fn, settled by one call. It gives a result for each item, in order; one
// item's error is no other's.
//
// fn says of each that it was granted how it ended. An error that it gives is that of
// every one but those that it said Failed or NotRun of: that one commit failed for all
// that are Done. Where it gives nil, one of which it said nothing is unknown. Where it
// panics all of them are.
//
// Everyone else's result is Do's: the kept value, a *FailedError, a refusal. A batch waits for nobody:
// WithWait counts nothing, and what another attempt runs is oncekeeper.ErrInProgress
// with a RetryDelay. What was granted and not run, since ctx ended first, is given
// back: ErrNotRun. See RunBatch for the parts that more than MaxBatch items make, keys
// that come twice, leases, fn's context, and when fn is called for one alone.
func DoBatch[T any](ctx context.Context, keeper *Client, items []Item, fn func(ctx context.Context, granted []*BatchAttempt[T]) error, opts ...DoOption) []ItemResult[T] {
	return doBatch(ctx, keeper, items, opts, func(doings []*doing[T]) func(context.Context, []*Granted) {
		return func(ctx context.Context, granted []*Granted) {
			attempts := make([]*BatchAttempt[T], len(granted))
			for n, g := range granted {
				attempts[n] = &BatchAttempt[T]{Attempt: g.Attempt, Item: g.Item, granted: g}
			}
			err := fn(ctx, attempts)
			for n, a := range attempts {
				a.end(doings[granted[n].Item], err)
			}
		}
	})
}

// end tells how the attempt ended whose function gave err.
func (a *BatchAttempt[T]) end(d *doing[T], err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	failure := a.said.failure
	switch {
	case a.said.notRun:
		a.granted.NotRun(failure)
		return
	case failure == nil && err != nil:
		failure = err
	case failure == nil && !a.said.done:
		failure = errNotSaid
	}
	a.granted.End(d.ended(a.granted.ctx, a.Attempt, a.said.value, failure))
}

// DoEach is DoBatch for a function that runs one item at a time, in their order: each
// by fn, which is given the item's index, with the context of that attempt alone. When
// ctx ends, or fn panics, those that were not begun are given back. The maximum run
// time of each is counted from when the first of its part is run.
func DoEach[T any](ctx context.Context, keeper *Client, items []Item, fn func(ctx context.Context, a *Attempt, item int) (T, error), opts ...DoOption) []ItemResult[T] {
	return doBatch(ctx, keeper, items, opts, func(doings []*doing[T]) func(context.Context, []*Granted) {
		return func(_ context.Context, granted []*Granted) {
			RunEach(ctx, granted, func(g *Granted) {
				value, failure := fn(g.ctx, g.Attempt, g.Item)
				g.End(doings[g.Item].ended(g.ctx, g.Attempt, value, failure))
			})
		}
	})
}

// RunEach calls run for each of granted, in order, and says NotRun of those that it
// does not come to: since ctx, which is RunBatch's caller's, has ended, or the lease of
// one is lost before its turn, or run panics over one before it.
func RunEach(ctx context.Context, granted []*Granted, run func(g *Granted)) {
	next := 0
	defer func() {
		for _, g := range granted[next:] {
			g.NotRun(context.Cause(ctx))
		}
	}()
	for next < len(granted) && ctx.Err() == nil {
		g := granted[next]
		next++
		if g.ctx.Err() != nil {
			g.NotRun(context.Cause(g.ctx))
			continue
		}
		run(g)
	}
}

func doBatch[T any](ctx context.Context, keeper *Client, items []Item, opts []DoOption, with func([]*doing[T]) func(context.Context, []*Granted)) []ItemResult[T] {
	doings := make([]*doing[T], len(items))
	b := newBatchRun(keeper, make([]Request, len(items)), with(doings))
	for i, item := range items {
		d, err := doingOf[T](item.Key, append(opts[:len(opts):len(opts)], item.Options...))
		if err != nil {
			b.results[i].Err = err
			continue
		}
		doings[i], b.reqs[i] = d, d.request
	}
	results := make([]ItemResult[T], len(items))
	for i, r := range b.all(ctx) {
		if doings[i] == nil {
			results[i].Err = r.Err
			continue
		}
		results[i].Value, results[i].Err = doings[i].answer(r.Result, r.Err)
	}
	return results
}
