package server

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// apply has the store apply cmds, and tells whoever waits for their keys.
func (s *Server) apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	if len(cmds) == 0 {
		return nil
	}
	results := s.store.Apply(ctx, cmds...)
	for i, res := range results {
		s.waiting.publish(cmds[i].Target(), res)
	}
	return results
}

// begin applies cmd and, while another attempt runs, waits for its end: up to
// wait, or the caller's deadline less a margin. It gives how
// long it had waited before the store was last asked.
func (s *Server) begin(ctx context.Context, cmd lifecycle.Begin, wait time.Duration) (storage.Result, time.Duration) {
	start := s.clock.Monotonic()
	if wait = boundWait(ctx, wait); wait <= 0 {
		return s.apply(ctx, cmd)[0], 0
	}
	w := s.waiting.join(cmd)
	if w == nil {
		return s.apply(ctx, cmd)[0], 0
	}
	defer s.waiting.leave(w)
	over := make(chan struct{})
	timer := s.clock.AfterFunc(wait, func() { close(over) })
	defer timer.Stop()
	for {
		waited := s.clock.Monotonic() - start
		res := s.apply(ctx, cmd)[0]
		if res.Refusal() != nil || res.Verdict != lifecycle.InProgress {
			return res, waited
		}
		woken := s.spans.asleep(ctx)
		answer := s.sleep(ctx, w, over, res)
		woken(answer)
		// Who may no longer ask is told so, and neither an answer nor a grant.
		if err := s.stillMay(ctx, cmd.Key); err != nil && ctx.Err() == nil {
			return storage.Result{Err: err}, 0
		}
		if answer != nil {
			return *answer, waited
		}
	}
}

// sleep gives what w is answered; nil where it is its turn to ask the store, which
// has last answered res.
func (s *Server) sleep(ctx context.Context, w *waiter, over <-chan struct{}, res storage.Result) *storage.Result {
	due, stop := s.judgeAgain()
	s.waiting.sleep(w, res)
	s.watch.awake()
	for {
		answer, slept := s.sleepUntil(ctx, w, over, due, res)
		stop()
		if slept {
			return answer
		}
		due, stop = s.judgeAgain()
		if err := s.stillMay(ctx, w.cmd.Key); err != nil {
			return &storage.Result{Err: err}
		}
	}
}

// sleepUntil is sleep, and not slept where due comes first.
func (s *Server) sleepUntil(ctx context.Context, w *waiter, over, due <-chan struct{}, res storage.Result) (answer *storage.Result, slept bool) {
	select {
	case up := <-w.wake:
		if up.closing {
			return &storage.Result{Err: fmt.Errorf("the server stops: %w", oncekeeper.ErrStoreUnavailable)}, true
		}
		return up.answer, true
	case <-over:
		last := s.lastWord(w, res)
		return &last, true
	case <-ctx.Done():
		return &storage.Result{Err: context.Cause(ctx)}, true
	case <-due:
		return nil, false
	}
}

// judgeAgain says when it is due to ask again whether who waits still may.
func (s *Server) judgeAgain() (due <-chan struct{}, stop func()) {
	if s.trust == nil {
		return nil, func() {}
	}
	c := make(chan struct{})
	timer := s.clock.AfterFunc(judgeEvery, func() { close(c) })
	return c, func() { timer.Stop() }
}

// lastWord gives what a waiter whose time is over is told: what it was just woken
// with, if that is an answer; else that it is still in progress.
func (s *Server) lastWord(w *waiter, res storage.Result) storage.Result {
	select {
	case up := <-w.wake:
		if up.answer != nil {
			return *up.answer
		}
	default:
	}
	return res
}

// boundWait leaves the caller's deadline room for the answer's way back.
func boundWait(ctx context.Context, wait time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-answerMargin(left))
	}
	return wait
}

// answerMargin is what of the time left to a caller's deadline the answer's way
// back may take: a tenth, and 10 ms at the least.
func answerMargin(left time.Duration) time.Duration {
	return max(left/10, 10*time.Millisecond)
}
