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
		s.waiting.sleep(w, res)
		s.watch.awake()
		select {
		case up := <-w.wake:
			if up.closing {
				return storage.Result{Err: fmt.Errorf("the server stops: %w", oncekeeper.ErrStoreUnavailable)}, 0
			}
			if up.answer != nil {
				return *up.answer, waited
			}
		case <-over:
			return s.lastWord(w, res), waited
		case <-ctx.Done():
			return storage.Result{Err: context.Cause(ctx)}, 0
		}
	}
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
