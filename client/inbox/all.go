package inbox

import (
	"context"
	"sync"

	"github.com/oncekeeper/oncekeeper/client"
)

// Delivery is one message that a call of HandleAll is to handle.
type Delivery struct {
	*client.Attempt
	// Item is the message's index in what HandleAll was given.
	Item int

	granted *client.Granted
	mu      sync.Mutex
	failure error
	notRun  bool
}

// Context is of this delivery alone: what calls InTx for it, or others on its behalf,
// is to use it. It ends when this message's lease is lost; see client.Granted.
func (d *Delivery) Context() context.Context { return d.granted.Context() }

// Failed says that this one failed, for err, as a Handler's error does; its neighbours
// did not. nil takes that back.
func (d *Delivery) Failed(err error) { d.say(err, false) }

// NotRun says that nothing was done for this one, because of why (nil: no reason): it
// comes Later, as Unavailable, and no attempt is counted.
func (d *Delivery) NotRun(why error) { d.say(why, true) }

func (d *Delivery) say(failure error, notRun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure, d.notRun = failure, notRun
}

// end tells how a delivery ended whose handler gave err for all of them.
func (d *Delivery) end(ran *attempted, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.notRun:
		d.granted.NotRun(d.failure)
	case d.failure != nil:
		d.granted.End(ran.by(d.Attempt, d.failure))
	default:
		d.granted.End(ran.by(d.Attempt, err))
	}
}

// AllHandler handles all the messages of a slice that are to be handled, in one
// transaction, say. nil: those are handled that it has not said Failed or NotRun of.
// An error, which says what a Handler's says, is that of all of those: the one commit
// failed. Where it panics nobody knows of any of them.
type AllHandler func(ctx context.Context, deliveries []*Delivery) error

// HandleAll is Handle for many messages at once: one call begins them, one call of
// handler handles those that are not handled yet and that nobody else has, and one
// call settles them. It gives a Result for each message, in order, and what becomes of
// one is no other's. A message that comes twice in it is handled once: its second is a
// Duplicate, or the next attempt, in a call of handler of its own.
//
// With Config.Request.Receipts each message has its own receipt, so its own InTx, with Delivery.Context;
// one transaction for all of them has no receipts, and is to write each
// Attempt.Token beside what it changes, if a late commit must not stand.
//
// For more than client.MaxBatch messages handler is called for each such part, one
// after the other. Once ctx has ended no further part is begun. See client.RunBatch
// for leases and for what handler's context is.
func (i *Inbox) HandleAll(ctx context.Context, ms []Message, handler AllHandler) []Result {
	return i.handleAll(ctx, ms, func(ctx context.Context, granted []*client.Granted, ran []attempted) {
		deliveries := make([]*Delivery, len(granted))
		for n, g := range granted {
			deliveries[n] = &Delivery{Attempt: g.Attempt, Item: g.Item, granted: g}
		}
		err := handler(ctx, deliveries)
		for _, d := range deliveries {
			d.end(&ran[d.Item], err)
		}
	})
}

// HandleEach is HandleAll for a handler of one message, given its index: they are
// begun together, handled one after the other in their order, each in the context of
// its own, and settled together, when the last of a part was handled. Those not come
// to when ctx ends, or when handler panics, come Later, and no attempt is counted.
func (i *Inbox) HandleEach(ctx context.Context, ms []Message, handler func(ctx context.Context, a *client.Attempt, item int) error) []Result {
	return i.handleAll(ctx, ms, func(_ context.Context, granted []*client.Granted, ran []attempted) {
		client.RunEach(ctx, granted, func(g *client.Granted) {
			g.End(ran[g.Item].by(g.Attempt, handler(g.Context(), g.Attempt, g.Item)))
		})
	})
}

func (i *Inbox) handleAll(ctx context.Context, ms []Message, run func(context.Context, []*client.Granted, []attempted)) []Result {
	reqs := make([]client.Request, len(ms))
	ran := make([]attempted, len(ms))
	for n, m := range ms {
		reqs[n], ran[n] = i.request(m), i.notAttempted()
	}
	results := make([]Result, len(ms))
	for n, r := range i.keeper.RunBatch(ctx, reqs, func(ctx context.Context, granted []*client.Granted) { run(ctx, granted, ran) }) {
		results[n] = i.told(r.Result, r.Err, ran[n], 0)
	}
	return results
}
