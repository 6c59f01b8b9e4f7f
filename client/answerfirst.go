package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/oncekeeper/oncekeeper"
)

// DefaultMaxAnsweredFirst is how many attempts may be answered and not yet settled at
// once, where nothing else is said.
const DefaultMaxAnsweredFirst = 256

// WithMaxAnsweredFirst bounds how many attempts of Request.AnswerFirst are answered and
// not yet settled at once; one more is settled before it is answered. 0: all are.
// Default: DefaultMaxAnsweredFirst.
func WithMaxAnsweredFirst(n int) Option { return func(c *Client) { c.answered.most = max(0, n) } }

// answeredFirst counts the attempts whose callers were answered while they are being
// settled.
type answeredFirst struct {
	most int

	mu       sync.Mutex
	settling int
	draining bool
	// none is closed when none is left; nil: nobody waits for that.
	none chan struct{}
}

func (a *answeredFirst) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining || a.settling >= a.most {
		return false
	}
	a.settling++
	return true
}

func (a *answeredFirst) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settling--
	if a.settling == 0 && a.none != nil {
		close(a.none)
		a.none = nil
	}
}

// drain has none enter any more, and gives a channel that is closed when all have
// left.
func (a *answeredFirst) drain() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
	if a.none == nil {
		a.none = make(chan struct{})
	}
	none := a.none
	if a.settling == 0 {
		close(a.none)
		a.none = nil
	}
	return none
}

func (a *answeredFirst) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settling
}

// Drain waits until every attempt is settled that was answered first
// (Request.AnswerFirst), or ctx ends; from then on all are settled before they are
// answered. A process calls it when its servers have stopped and before it closes the
// connection. Its error says how many are not settled yet: each is found by its
// receipt, once its lease has ended.
func (c *Client) Drain(ctx context.Context) error {
	select {
	case <-c.answered.drain():
		return nil
	case <-ctx.Done():
	}
	if left := c.answered.left(); left > 0 {
		return fmt.Errorf("oncekeeper: %d attempts were answered and are not settled yet, and their receipts tell the next callers: %w", left, context.Cause(ctx))
	}
	return nil
}

// answersFirst says whether the caller of an attempt is answered before that is
// settled: the answer is what its own InTx committed, which is the answer whatever
// becomes of the settlement, and the next attempt would find.
func (c *Client) answersFirst(req Request, done carried) bool {
	return req.AnswerFirst && !req.Hold && done.ran && done.applied && c.answered.enter()
}

// answerFirst gives the attempt's answer, and has it settled meanwhile.
func (c *Client) answerFirst(ctx context.Context, r *receipts, a *Attempt, done carried, end conclusion) Result {
	c.stats.answeredFirst.Add(1)
	end.ended.Response = cloneResponse(end.ended.Response)
	ctx = context.WithoutCancel(ctx)
	go func() { // ends with the settle time-out
		defer c.answered.leave()
		err := errCrashed // unless it returns
		defer func() {
			if err != nil {
				c.stats.answeredFirstLost.Add(1)
			}
		}()
		err = c.settleAttempt(ctx, a, end)
		// The answer is the receipt's in any case; this reports what was not settled.
		_, _ = c.reply(ctx, r, a, done, end, err)
	}()
	return Result{Ran: true, Ended: done.ended, Receipt: true, Token: a.token, Settling: true}
}

// cloneResponse gives r in memory of its own: the caller may change what it was given.
func cloneResponse(r *oncekeeper.Response) *oncekeeper.Response {
	own := *r
	own.Body = bytes.Clone(r.Body)
	own.Metadata = slices.Clone(r.Metadata)
	for i, m := range own.Metadata {
		own.Metadata[i].Value = bytes.Clone(m.Value)
	}
	return &own
}
