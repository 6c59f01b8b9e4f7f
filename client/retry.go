package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/coalesce"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// maxHint bounds a delay that a server asks for.
const maxHint = time.Minute

// pause gives the pause after try n, counted from 0, which failed with err.
func (c *Client) pause(n int, err error) time.Duration {
	hint, _ := RetryDelay(err)
	return c.delays.Delay(n, min(hint, maxHint))
}

// callKind says how a call is made.
type callKind struct {
	// name for errors.
	name string
	// hold is how long the server is asked to hold the call.
	hold time.Duration
	// linger is how long a try may outlive its caller: the answer may be a grant,
	// which must be given back rather than left to lapse.
	linger time.Duration
	// essential, where set, has the call retried for so long in all, though the
	// budget is spent, and at every error but a verdict of the service: the call is
	// idempotent, and not to have made it costs a takeover.
	essential time.Duration
}

// rpc is one try of a call.
type rpc func(ctx context.Context, opts ...grpc.CallOption) error

// call tries f until it is answered, within ctx and the retry budget. It gives
// when the try that was answered was sent, on the clock's Monotonic.
func (c *Client) call(ctx context.Context, kind callKind, f rpc) (sent time.Duration, err error) {
	caller := ctx
	if kind.essential > 0 {
		limited, cancel := clock.WithTimeout(ctx, c.clock, kind.essential, errNoAnswer)
		defer cancel()
		ctx = limited
	}
	var last error
	lost := false
	for n := 0; ; n++ {
		switch {
		case caller.Err() != nil:
			return 0, &endedError{call: kind.name, cause: context.Cause(caller), ctxErr: caller.Err(), last: last, lost: lost}
		case ctx.Err() != nil && last == nil:
			return 0, &callError{call: kind.name, err: errNoAnswer, outage: true, lost: lost}
		case ctx.Err() != nil:
			return 0, &callError{call: kind.name, err: last, outage: true, lost: lost}
		}
		sent = c.clock.Monotonic()
		err := c.try(ctx, kind, c.callTimeout, f)
		lost = lost || err != nil && !verdict(err) && !errors.Is(err, coalesce.ErrNotSent)
		switch {
		case err == nil:
			c.budget.Succeeded()
			return sent, nil
		case ctx.Err() != nil && (cutShort(err) || errors.Is(err, coalesce.ErrNotSent)):
			continue // it says nothing of its own
		case ctx.Err() != nil:
			last = err
			continue
		case !retryable(err) && (kind.essential == 0 || verdict(err) || tooMuch(err)):
			return sent, &callError{call: kind.name, err: err, lost: !verdict(err)}
		}
		last = err
		pause := c.pause(n, err)
		if allowed := c.budget.Failed() || kind.essential > 0; !allowed || endsWithin(ctx, pause) {
			return sent, &callError{call: kind.name, err: err, outage: true, lost: lost}
		}
		// Where ctx ends the pause, the loop says so.
		_ = clock.Sleep(ctx, c.clock, pause)
	}
}

func cutShort(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded
}

// try makes one RPC, bounded by timeout beyond what the server may hold it.
func (c *Client) try(ctx context.Context, kind callKind, timeout time.Duration, f rpc) error {
	rctx, cancel := c.tryContext(ctx, kind, timeout+kind.hold)
	defer cancel()
	var trailer metadata.MD
	err := wire.FromError(f(rctx, grpc.Trailer(&trailer)), trailer)
	if err != nil && ctx.Err() == nil && (rctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded) {
		return status.Errorf(codes.Unavailable, "no answer within %v", timeout+kind.hold)
	}
	return err
}

// tryContext has a deadline that travels to the server, and ends on the client's
// clock too, where that is another than the deadline's.
func (c *Client) tryContext(ctx context.Context, kind callKind, timeout time.Duration) (context.Context, context.CancelFunc) {
	base := ctx
	deadline := time.Now().Add(timeout)
	if kind.linger > 0 {
		base = context.WithoutCancel(ctx)
		if d, ok := ctx.Deadline(); ok && d.Add(kind.linger).Before(deadline) {
			deadline = d.Add(kind.linger)
		}
	}
	dctx, cancelDeadline := context.WithDeadline(base, deadline)
	rctx, cancel := dctx, cancelDeadline
	if c.clock != clock.System {
		rctx, cancel = clock.WithTimeout(dctx, c.clock, timeout, errNoAnswer)
	}
	stop := func() bool { return true }
	if kind.linger > 0 {
		stop = context.AfterFunc(ctx, func() {
			if clock.Sleep(rctx, c.clock, kind.linger) == nil {
				cancel()
			}
		})
	}
	return rctx, func() {
		stop()
		cancel()
		cancelDeadline()
	}
}

var errNoAnswer = status.Error(codes.Unavailable, "no answer in time")

// retryable: nothing was decided or it is not known, and the same call again can
// tell.
func retryable(err error) bool {
	return status.Code(err) == codes.Unavailable || errors.Is(err, oncekeeper.ErrOverloaded)
}

// verdict says whether the service itself judged the call. Anything else may be
// the transport's word (a stream that was reset reads as CANCELLED, INTERNAL or
// UNKNOWN) and says nothing of whether the call was applied.
func verdict(err error) bool {
	_, ok := oncekeeper.SentinelOf(err)
	return ok
}

// endsWithin says whether ctx's deadline leaves no time after d.
func endsWithin(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}
