package client

import (
	"context"
	"errors"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// errBeginAgain: the key is another than it was, and Begin says what.
var errBeginAgain = errors.New("begin again")

// unbegun is a call that was granted nothing.
type unbegun struct {
	answer BeginAnswer
	err    error
	// released is the token of the attempt that this call released before; 0: none.
	released int64
}

// said gives what Begin was answered, in the words of the steps.
func (u unbegun) said(ctx context.Context) steps.Said {
	switch {
	case errors.Is(u.err, oncekeeper.ErrFingerprintMismatch):
		return steps.Mismatch
	case errors.Is(u.err, ErrUnavailable) && ctx.Err() == nil:
		return steps.Down
	case u.err != nil:
		return 0
	case u.answer.Unresolved != nil && u.answer.Unresolved.Token != u.released:
		return steps.Unresolved
	case u.answer.Outcome != nil && u.answer.Outcome.Response != nil && u.answer.Outcome.Response.Omitted:
		return steps.NotKept
	default:
		return steps.Replayed
	}
}

// token is of the attempt whose outcome is in question; 0: none is.
func (u unbegun) token() int64 {
	if u.answer.Unresolved == nil {
		return 0
	}
	return u.answer.Unresolved.Token
}

func (u unbegun) plain() (Result, error) {
	return Result{Outcome: u.answer.Outcome, InProgress: u.answer.InProgress, Unresolved: u.answer.Unresolved}, u.err
}

// answerUnbegun answers a call that was granted nothing, by the receipt where that
// knows more.
func (c *Client) answerUnbegun(ctx context.Context, req Request, r *receipts, u unbegun, run func(context.Context, *Attempt) Ended) (Result, error) {
	asked := steps.Asked{Said: u.said(ctx), Outage: steps.Outage(req.Outage), Receipts: r != nil, Reconciles: req.Reconcile != nil}
	step := steps.First(asked)
	var row *receipt.Receipt
	failed := u.err
	if step == steps.Look {
		var found steps.Finding
		var err error
		if row, found, err = r.look(ctx, u.token()); err != nil {
			failed = err
		}
		if asked.Said == steps.Mismatch {
			found = steps.Surely(found, row, r.claim)
		}
		step = steps.AfterLook(asked, found)
	}
	var told *oncekeeper.Response
	if step == steps.Ask {
		var found Finding
		held := u.answer.Unresolved
		found, told = c.ask(ctx, req.Reconcile, Question{Key: req.Key, Token: held.Token, Number: held.Number, Held: true, Checkpoint: held.Checkpoint})
		step = steps.AfterAsk(asked.Said, steps.Told(found))
	}
	switch step {
	case steps.Replay:
		return Result{Outcome: u.kept(row)}, nil
	case steps.CompleteFound:
		found := carried{applied: true, ended: Ended{As: oncekeeper.SettledComplete, Response: row.Response}, outcome: outcomeOf(row)}
		return c.settleHeld(ctx, req, r, u, found)
	case steps.CompleteTold:
		return c.settleHeld(ctx, req, r, u, carried{ended: Ended{As: oncekeeper.SettledComplete, Response: told}, outcome: &oncekeeper.Outcome{
			Response: told, Origin: oncekeeper.OriginAttempt, Token: u.token(), Attempt: u.answer.Unresolved.Number,
		}})
	case steps.Release:
		return c.settleHeld(ctx, req, r, u, carried{ended: Ended{As: oncekeeper.SettledRetryable, Status: StatusOf(errDidNotHappen)}})
	case steps.RunBare:
		return c.runWithout(ctx, req, r, OutageReceiptsOnly, run)
	case steps.RunOpen:
		return c.runWithout(ctx, req, nil, OutageOpen, run)
	case steps.Refuse:
		return Result{}, r.mismatch()
	case steps.Unavailable:
		return Result{}, failed
	default:
		return u.plain()
	}
}

var errDidNotHappen = errors.New("it did not happen, by what was asked about it")

// kept gives the outcome with the response that the receipt has whole.
func (u unbegun) kept(row *receipt.Receipt) *oncekeeper.Outcome {
	if u.answer.Outcome == nil {
		return outcomeOf(row)
	}
	whole := *u.answer.Outcome
	whole.Response = row.Response
	return &whole
}

// settleHeld settles the attempt that holds the key, and gives the outcome that is
// known of it; errBeginAgain where Begin now says more.
func (c *Client) settleHeld(ctx context.Context, req Request, r *receipts, u unbegun, done carried) (Result, error) {
	end := r.conclude(ctx, u.token(), done)
	switch {
	case end.Refused:
		return Result{}, r.mismatch()
	case end.Unclosed:
		return Result{}, end.err
	case end.row != nil && end.Found:
		done.outcome = outcomeOf(end.row)
	}
	err := c.settleWhole(ctx, Settlement{Key: req.Key, Token: u.token(), Ended: fit(end.ended, 0, "")}, c.settleTimeout)
	switch {
	case end.Found:
		if err != nil && !refused(err) {
			c.troubles.report(ctx, c.log, "a held key could not be completed with its receipt", c.logKey(req.Key), err)
		}
		return Result{Outcome: done.outcome}, nil
	case refused(err), err == nil && done.outcome == nil:
		return Result{}, errBeginAgain
	case done.outcome == nil:
		return Result{}, err
	default:
		return Result{Outcome: done.outcome}, nil
	}
}

// runWithout runs where the service gave no verdict: under the receipt alone, or
// where r is nil unguarded. Nothing is settled.
func (c *Client) runWithout(ctx context.Context, req Request, r *receipts, mode Outage, run func(context.Context, *Attempt) Ended) (Result, error) {
	counted, how := &c.stats.outageOpen, "unguarded"
	if mode == OutageReceiptsOnly {
		counted, how = &c.stats.outageReceipts, "under its receipt alone"
	}
	counted.Add(1)
	c.troubles.report(ctx, c.log, "the service gives no verdict, and a function runs "+how, c.logKey(req.Key))
	// What an earlier attempt did is not known, so it is to look.
	a := c.newAttempt(ctx, req, &Grant{key: req.Key, Takeover: true}, nil)
	a.outage = mode
	p := r.permit(a)
	done := c.runIt(a, p, req.MaxRunTime, run)
	if done.notRun {
		return Result{}, done.err
	}
	return Result{Ran: true, Ended: done.ended, Receipt: done.applied, Outage: mode}, nil
}
