package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

const (
	// maxHold is how long one call asks the server to hold it.
	maxHold = 10 * time.Second
	// heldEnough: a server that held a call so long may be asked again at once.
	heldEnough = 500 * time.Millisecond
	// maxLost bounds how often in a row a grant is lost before it can be run.
	maxLost = 5
	// maxHeadroom is kept of a context's deadline for the answer to travel.
	maxHeadroom = 500 * time.Millisecond
)

// errAskAgain: the grant is another's by now, or over.
var errAskAgain = errors.New("the grant was lost before it was run")

// waiting is how long a caller may still wait for another attempt.
type waiting struct {
	c   *Client
	end time.Duration // on the clock's Monotonic
}

func (c *Client) startWaiting(ctx context.Context, wait time.Duration) waiting {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		left -= min(maxHeadroom, left/10)
		if wait < 0 || wait > left {
			wait = left
		}
	} else if wait < 0 {
		wait = c.maxWait
	}
	return waiting{c: c, end: c.clock.Monotonic() + wait}
}

func (w waiting) left() time.Duration { return w.end - w.c.clock.Monotonic() }

// acquire begins until the attempt may be run, is settled, is held, or has been
// waited for long enough. A grant comes with a lease that has time left.
func (c *Client) acquire(ctx context.Context, req Request, waiting waiting) (BeginAnswer, *lease, error) {
	begin := req.begin()
	release := func() {}
	for over, lost, polls := false, 0, 0; ; polls++ {
		asked := c.clock.Monotonic()
		answer, err := c.begin(ctx, begin, release)
		req.sight.answered(answer)
		switch {
		case errors.Is(err, oncekeeper.ErrAlreadySettled) && !over:
			// That call is over; its retry came too late. A new one asks anew.
			over = true
			begin.Wait, release = 0, func() {}
			continue
		case err != nil:
			return BeginAnswer{}, nil, err
		case answer.Grant != nil:
			lease, err := c.ready(ctx, answer.Grant, req.Lease)
			if err == nil {
				return answer, lease, nil
			}
			if !errors.Is(err, errAskAgain) {
				return BeginAnswer{}, nil, err
			}
			if lost++; lost == maxLost {
				return BeginAnswer{}, nil, fmt.Errorf("%w: %d grants in a row: %v", ErrLeaseLost, lost, err)
			}
			begin.Wait, release = 0, func() {}
			if clock.Sleep(ctx, c.clock, c.pause(lost-1, nil)) != nil {
				return BeginAnswer{}, nil, ended(ctx, err)
			}
			continue
		case answer.InProgress == nil || waiting.left() <= 0:
			return answer, nil, nil
		}
		held := c.clock.Monotonic() - asked
		begin.Wait, release, err = waiting.next(ctx, answer.InProgress, polls, begin.Wait, held)
		if err != nil {
			return BeginAnswer{}, nil, err
		}
	}
}

// next gives how long to ask the server to hold the next call, after what pause
// is due: none where the server did hold the last one, or may hold the next.
func (w waiting) next(ctx context.Context, p *InProgress, polls int, hold, held time.Duration) (time.Duration, func(), error) {
	if declined := hold > 0 && held < min(hold/2, heldEnough); !declined {
		if release, ok := w.c.openWait(); ok {
			return min(w.left(), maxHold), release, nil
		}
	}
	busy := refusal(oncekeeper.ErrInProgress, "", wire.Details{RetryDelay: p.RetryDelay})
	if p.RetryDelay > 0 {
		polls = 0 // the service paces
	}
	if clock.Sleep(ctx, w.c.clock, min(w.c.pause(polls, busy), w.left())) != nil {
		return 0, nil, ended(ctx, busy)
	}
	release, ok := w.c.openWait()
	if !ok {
		return 0, release, nil
	}
	return max(0, min(w.left(), maxHold)), release, nil
}

// ready gives the grant's lease once there is enough left of it to run: it is
// renewed first where little is. A grant that will not be run is given back, and
// errAskAgain says that there is nothing to give back.
func (c *Client) ready(ctx context.Context, g *Grant, asked time.Duration) (*lease, error) {
	l := newLease(c.clock, g)
	for tries := 0; ctx.Err() == nil; tries++ {
		left, length := l.left()
		if left > length/3 && (tries > 0 || left >= worthwhile(asked)) {
			return l, nil
		}
		if tries == 3 {
			c.giveBack(ctx, g)
			return nil, fmt.Errorf("begin: %w: renewing it takes longer than it lasts", ErrLeaseLost)
		}
		renewal, err := c.renew(ctx, callKind{name: "renew"}, RenewRequest{Key: g.key, Token: g.Token, Lease: asked})
		switch {
		case refused(err):
			return nil, fmt.Errorf("begin: %w: %w", errAskAgain, err)
		case err != nil:
			c.giveBack(ctx, g)
			return nil, fmt.Errorf("begin: %w", err)
		}
		l.extend(renewal.sent, renewal.Lease)
	}
	c.giveBack(ctx, g)
	return nil, ended(ctx, nil)
}

// worthwhile is what must be left of a grant to run it without renewing it first.
func worthwhile(asked time.Duration) time.Duration {
	if asked > 0 {
		return min(time.Second, asked/3)
	}
	return time.Second
}

func ended(ctx context.Context, last error) error {
	return &endedError{call: "begin", cause: context.Cause(ctx), ctxErr: ctx.Err(), last: last}
}
