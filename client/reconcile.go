package client

import (
	"context"
	"errors"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/clock"
)

// DefaultReconcileTimeout is how long a reconciler may take where nothing else is
// said.
const DefaultReconcileTimeout = 30 * time.Second

// Question is what a reconciler is asked: whether the operation of a key had its
// effect, in any attempt so far.
type Question struct {
	Key oncekeeper.Key
	// Token and Number are of the attempt that is to run, or of the last one, where
	// the key is held.
	Token  int64
	Number int32
	// Held: the key is unresolved. The attempt that Number names may still be
	// running: say DidNotHappen only where it cannot happen any more either.
	Held bool
	// Checkpoint is what an attempt saved last; nil for nothing.
	Checkpoint []byte
}

// Finding is what a reconciler found.
type Finding uint8

// The findings of a reconciler.
const (
	// CannotTell: the key waits. It is also what an error, and a reconciler that
	// ran out of time, are taken for.
	CannotTell = Finding(steps.CannotTell)
	// Happened: the key is completed with the response that comes with it.
	Happened = Finding(steps.Happened)
	// DidNotHappen: the operation runs.
	DidNotHappen = Finding(steps.DidNotHappen)
)

// Reconcile asks whoever knows, a payment provider for one, what became of an
// attempt whose outcome nobody knows. It is asked on a takeover and for a key that
// is held, where no receipt says more, and never for a first attempt. Its context
// ends with WithReconcileTimeout, or with the lease. The response goes with Happened.
//
// On a takeover, where it cannot tell, the attempt is settled as unknown and its
// caller comes back.
type Reconcile func(ctx context.Context, q Question) (Finding, *oncekeeper.Response, error)

// ReceiptsTell is the reconciler of an operation whose whole effect is in the
// transaction of its InTx: a key without a receipt did not happen, and its receipt
// is closed before that is believed.
func ReceiptsTell(context.Context, Question) (Finding, *oncekeeper.Response, error) {
	return DidNotHappen, nil, nil
}

var (
	errReconcileTime = errors.New("the reconciler ran out of time")
	errCannotTell    = errors.New("nobody can tell yet whether it happened")
	errNoResponse    = errors.New("the reconciler says that it happened, and gives no response")
	errNoFinding     = errors.New("the reconciler found something that there is no word for")
)

// ask asks the request's reconciler, and takes what is no answer for CannotTell.
func (c *Client) ask(ctx context.Context, reconcile Reconcile, q Question) (Finding, *oncekeeper.Response) {
	ctx, cancel := clock.WithTimeout(ctx, c.clock, c.reconcileTimeout, errReconcileTime)
	defer cancel()
	c.stats.reconciled.Add(1)
	found, response, err := reconcile(ctx, q)
	switch {
	case err == nil && found == Happened && response == nil:
		err = errNoResponse
	case err == nil && found > DidNotHappen:
		err = errNoFinding
	}
	if err != nil {
		c.troubles.report(ctx, c.log, "a reconciler cannot tell what became of an attempt", c.logKey(q.Key), err)
		found, response = CannotTell, nil
	}
	if found == CannotTell {
		c.stats.cannotTell.Add(1)
	}
	return found, response
}

func cannotTell() error { return &unproven{what: "reconcile", says: errCannotTell} }
