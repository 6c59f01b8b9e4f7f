package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// carried is how a grant was used, before it is settled.
type carried struct {
	ran bool
	// notRun: the grant is given back, and its function was not called.
	notRun bool
	// ended is what the grant is to be settled as.
	ended Ended
	// applied: it is what the receipt holds.
	applied bool
	// outcome is the answer where the grant was not run.
	outcome *oncekeeper.Outcome
	// err is what the caller gets where there is no answer.
	err error
	// refused: the receipt is another request's.
	refused bool
}

// carry uses a grant and settles it, and leaves nothing running.
func (c *Client) carry(ctx context.Context, req Request, r *receipts, g *Grant, l *lease, run func(context.Context, *Attempt) Ended) (Result, error) {
	a := c.newAttempt(ctx, req, g, l)
	p := r.permit(a)
	stopKeeping := a.startKeeping(ctx)
	defer stopKeeping()
	returned := false
	// No recover: a panic keeps its value and its stack, and Goexit goes on.
	defer func() {
		if returned {
			return
		}
		a.setReturned()
		a.lose(errOver)
		stopKeeping()
		crash := r.conclude(ctx, a.token, crashed(p))
		if err := c.settleAttempt(ctx, a, crash); err != nil {
			c.reportUnsettled(ctx, a, crash.ended.As, err)
		}
	}()
	done := c.use(ctx, req, r, a, p, run)
	returned = true
	a.setReturned()
	a.lose(errOver)
	end := r.conclude(ctx, a.token, done)
	stopKeeping()
	if c.answersFirst(req, done) {
		return c.answerFirst(ctx, r, a, done, end), nil
	}
	return c.reply(ctx, r, a, done, end, c.settleAttempt(ctx, a, end))
}

// startKeeping keeps the attempt's lease until it is stopped, also while it is looked
// for a receipt before the function, and while that is closed after it; but no longer
// than the function may run. Most attempts are over before there is anything to do for
// their lease, and have no goroutine for it.
func (a *Attempt) startKeeping(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	left, _ := a.lease.left()
	a.mu.Lock() // what is due at once may lose the lease before it is stored how to end that
	defer a.mu.Unlock()
	due := a.client.clock.AfterFunc(min(a.lease.renewIn(), left), func() {
		defer close(kept)
		a.keep(ctx, a.end) // not by lose: the keeping ends itself, and may before endKeeping is set
	})
	endKeeping := sync.OnceFunc(func() {
		cancel()
		if due.Stop() {
			close(kept)
		}
	})
	a.endKeeping = endKeeping
	return func() {
		endKeeping()
		<-kept
	}
}

// crashed is how an attempt ended that did not return.
func crashed(p *receipt.Permit) carried {
	if applied := p.Applied(); applied != nil {
		return carried{ran: true, applied: true, ended: Ended{As: oncekeeper.SettledComplete, Response: applied}}
	}
	return carried{ran: true, ended: Ended{As: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{
		Code: int32(codes.Unknown), Message: "the function panicked or left its goroutine",
	}}}
}

// use looks, asks and runs, as far as there is need.
func (c *Client) use(ctx context.Context, req Request, r *receipts, a *Attempt, p *receipt.Permit, run func(context.Context, *Attempt) Ended) carried {
	if done, runs := c.beforeRun(ctx, req, r, a); !runs {
		return done
	}
	return c.runIt(a, p, req.MaxRunTime, run)
}

// beforeRun looks and asks, as far as there is need, and says whether the attempt is
// to run; where it is not, how its grant is used.
func (c *Client) beforeRun(ctx context.Context, req Request, r *receipts, a *Attempt) (done carried, runs bool) {
	asked := steps.Asked{Said: steps.Granted, Number: a.number, Takeover: a.takeover, Receipts: r != nil, Reconciles: req.Reconcile != nil}
	step := steps.First(asked)
	var row *receipt.Receipt
	var failed error
	if step == steps.Look {
		var found steps.Finding
		row, found, failed = r.look(context.WithoutCancel(ctx), a.token)
		step = steps.AfterLook(asked, found)
	}
	var told *oncekeeper.Response
	if step == steps.Ask {
		var found Finding
		found, told = c.ask(a.ctx, req.Reconcile, Question{Key: a.key, Token: a.token, Number: a.number, Checkpoint: a.Checkpoint()})
		step = steps.AfterAsk(asked.Said, steps.Told(found))
	}
	if step == steps.Run && a.ctx.Err() != nil {
		return carried{notRun: true, ended: notRunEnding(), err: fmt.Errorf("begin: %w", context.Cause(a.ctx))}, false
	}
	switch step {
	case steps.Run:
		return carried{}, true
	case steps.CompleteFound:
		return carried{ended: Ended{As: oncekeeper.SettledComplete, Response: row.Response}, applied: true, outcome: outcomeOf(row)}, false
	case steps.CompleteTold:
		return carried{ended: Ended{As: oncekeeper.SettledComplete, Response: told}, outcome: &oncekeeper.Outcome{
			Response: told, Origin: oncekeeper.OriginAttempt, Token: a.token, Attempt: a.number,
		}}, false
	case steps.Refuse:
		return carried{notRun: true, ended: notRunEnding(), refused: true}, false
	case steps.Unknown:
		return carried{ended: Ended{As: oncekeeper.SettledUnknown, Status: StatusOf(errCannotTell)}, err: cannotTell()}, false
	default:
		if failed == nil {
			failed = &unproven{what: "look at the receipt", says: errFloored}
		}
		return carried{notRun: true, ended: notRunEnding(), err: failed}, false
	}
}

// errFloored: a later attempt closed the receipt, or one of a service that was
// lost and whose clock was ahead.
var errFloored = errors.New("the receipt is closed to this attempt: a later one has the key, or the service's clock is behind an earlier one's")

func (c *Client) runIt(a *Attempt, p *receipt.Permit, maxRunTime time.Duration, run func(context.Context, *Attempt) Ended) carried {
	return c.carriedBy(a, p, a.call(p, maxRunTime, run))
}

// carriedBy is how a grant was used whose function returned, and says that it ended
// as e.
func (c *Client) carriedBy(a *Attempt, p *receipt.Permit, e Ended) carried {
	if applied := p.Applied(); applied != nil {
		c.stats.applied.Add(1)
		return carried{ran: true, applied: true, ended: Ended{As: oncekeeper.SettledComplete, Response: applied}}
	}
	if why := a.notRunFor(); why != nil {
		return carried{notRun: true, ended: notRunEnding(), err: why}
	}
	return carried{ran: true, ended: e}
}

// reply is what the caller of a grant is given, once it was settled with err.
func (c *Client) reply(ctx context.Context, r *receipts, a *Attempt, done carried, end conclusion, err error) (Result, error) {
	settled := steps.Taken
	switch {
	case superseded(err):
		settled = steps.Superseded
	case err != nil:
		settled = steps.Lost
	}
	if !done.ran {
		return replyUnrun(r, done, end, settled)
	}
	result := Result{Ran: true, Ended: done.ended, Token: a.token, Receipt: done.applied}
	switch {
	case settled == steps.Lost:
		result.Unsettled = err
		c.reportUnsettled(ctx, a, end.ended.As, err)
	case end.Unclosed:
		result.Unsettled = end.err
		c.reportUnsettled(ctx, a, done.ended.As, end.err)
	}
	switch reply := steps.Replies(done.ended.As, end.Ending, settled); {
	case reply == steps.TheReceipts:
		if end.row != nil {
			result.Outcome = outcomeOf(end.row)
		}
		return result, nil
	case reply == steps.Refusal:
		return result, r.mismatch()
	case reply == steps.Another:
		return result, err
	case reply == steps.ComeBack && end.Unclosed:
		return result, end.err
	case reply == steps.ComeBack && r != nil:
		return result, &unproven{what: "settle", says: errNotKept, cause: err}
	default:
		return result, nil
	}
}

// replyUnrun is reply for a grant that was not run.
func replyUnrun(r *receipts, done carried, end conclusion, settled steps.Settled) (Result, error) {
	switch {
	case end.Found && end.row != nil:
		return Result{Outcome: outcomeOf(end.row)}, nil
	case end.Refused:
		return Result{}, r.mismatch()
	case done.err != nil:
		return Result{}, done.err
	case end.Unclosed:
		return Result{}, end.err
	case settled == steps.Superseded && !end.Found:
		return Result{InProgress: &InProgress{}}, nil
	default:
		return Result{Outcome: done.outcome}, nil
	}
}

// superseded says whether the service says that another outcome counts.
func superseded(err error) bool {
	return errors.Is(err, oncekeeper.ErrFenced) || errors.Is(err, oncekeeper.ErrAlreadySettled)
}

var errNotKept = errors.New("it failed for good, and the service could not be told: the next attempt may succeed")
