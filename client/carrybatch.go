package client

import (
	"context"
	"fmt"

	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// inBatch is what a batch's shared context carries: the attempts of the batch, and
// the batch inside which it runs.
type inBatch struct {
	attempts []*Attempt
	outer    *inBatch
}

type batchKey struct{}

func batchFrom(ctx context.Context) *inBatch {
	b, _ := ctx.Value(batchKey{}).(*inBatch)
	return b
}

// held is a grant of a batch, and what becomes of it.
type held struct {
	item   int
	req    Request
	r      *receipts
	a      *Attempt
	permit *receipt.Permit
	stop   func() // ends the renewing
	// granted is what the function gets; nil: it is not run.
	granted *Granted
	done    carried
}

// carry uses the grants of a part, settles them, and leaves nothing running.
func (b *batchRun) carry(ctx context.Context, part []int, begun []BeginResult, leases []*lease) {
	shared := &inBatch{outer: batchFrom(ctx)}
	within := context.WithValue(ctx, batchKey{}, shared)
	var all []*held
	for n, i := range part {
		if leases[n] == nil {
			continue
		}
		h := &held{item: i, req: b.reqs[i], r: b.receipts[i], a: b.client.newAttempt(within, b.reqs[i], begun[n].Answer.Grant, leases[n])}
		h.permit = h.r.permit(h.a)
		shared.attempts = append(shared.attempts, h.a)
		all = append(all, h)
	}
	if len(all) == 0 {
		return
	}
	for _, h := range all {
		h.stop = h.a.startKeeping(ctx)
	}
	// However run ends: a panic keeps its value and its stack, and Goexit goes on.
	defer func() { b.settle(ctx, all) }()
	if run := b.toRun(ctx, all); len(run) > 0 {
		b.call(within, run)
	}
}

// toRun looks and asks, as far as there is need, and gives what is to be run.
func (b *batchRun) toRun(ctx context.Context, all []*held) []*held {
	runs := make([]bool, len(all))
	together(len(all), func(n int) {
		h := all[n]
		if ctx.Err() == nil {
			h.done, runs[n] = b.client.beforeRun(ctx, h.req, h.r, h.a)
		}
	})
	var run []*held
	for n, h := range all {
		switch {
		case ctx.Err() != nil && (runs[n] || h.done.ended.As == 0):
			h.done = carried{notRun: true, ended: notRunEnding(), err: ended(ctx, ErrNotRun)}
		case runs[n] && h.a.ctx.Err() != nil: // lost while it was looked for its neighbours
			h.done = carried{notRun: true, ended: notRunEnding(), err: fmt.Errorf("begin: %w", context.Cause(h.a.ctx))}
		case runs[n]:
			run = append(run, h)
		}
	}
	return run
}

// call calls the function for all of run.
func (b *batchRun) call(ctx context.Context, run []*held) {
	shared, end := context.WithCancelCause(withPermit(context.WithoutCancel(ctx), nil))
	defer end(errOver)
	alive := make(chan struct{}, len(run))
	granted := make([]*Granted, len(run))
	for n, h := range run {
		own, over := h.a.start(h.permit, h.req.MaxRunTime)
		defer over()
		h.granted = &Granted{Attempt: h.a, Item: h.item, ctx: own}
		granted[n] = h.granted
		defer context.AfterFunc(own, func() {
			if alive <- struct{}{}; len(alive) == cap(alive) {
				end(context.Cause(own))
			}
		})()
	}
	b.run(shared, granted)
}

// settle settles all, and says what became of each. Of what a function did not come
// to, since it panicked, it has said nothing.
func (b *batchRun) settle(ctx context.Context, all []*held) {
	ends := make([]conclusion, len(all))
	// Whatever a store panics over: no lease is kept after it, and the others are told.
	defer func() { b.tell(ctx, all, ends) }()
	together(len(all), func(n int) {
		h := all[n]
		h.a.setReturned()
		h.a.lose(errOver)
		switch {
		case h.granted != nil:
			h.done = b.client.carriedBy(h.a, h.permit, h.granted.ending())
		case h.done.ended.As == 0: // what looked for it did not return
			h.done = carried{notRun: true, ended: notRunEnding(), err: ErrNotRun}
		}
		ends[n] = unconcluded(h.done)
		ends[n] = h.r.conclude(ctx, h.a.token, h.done)
	})
}

// unconcluded is what an attempt is settled as whose store panics.
func unconcluded(done carried) conclusion {
	return conclusion{
		Ending: steps.Ending{As: done.ended.As, Unclosed: true}, ended: unclosed(done.ended),
		err: &unproven{what: "close the receipt", says: ErrReceipts},
	}
}

// tell tells the service, and the results, how each ended.
func (b *batchRun) tell(ctx context.Context, all []*held, ends []conclusion) {
	c := b.client
	settlements := make([]Settlement, len(all))
	for n, h := range all {
		settlements[n] = settlementOf(h.a, ends[n])
	}
	together(len(all), func(n int) { all[n].stop() })
	errs := c.settleEach(ctx, settlements)
	for n, h := range all {
		result := &b.results[h.item]
		result.Result, result.Err = c.reply(ctx, h.r, h.a, h.done, ends[n], errs[n])
	}
}
