package server

import (
	"context"
	"runtime"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// AwaitAsleep returns once n waiters sleep, so that a test settles only then. It
// gives ctx's cause where that ends first.
func (s *Server) AwaitAsleep(ctx context.Context, n int) error {
	for ctx.Err() == nil {
		s.waiting.mu.Lock()
		asleep := 0
		for _, l := range s.waiting.keys {
			asleep += len(l.asleep)
		}
		s.waiting.mu.Unlock()
		if asleep == n {
			return nil
		}
		runtime.Gosched()
	}
	return context.Cause(ctx)
}

// RouseWatch has the watch look around as if somebody had begun to wait.
func (s *Server) RouseWatch() { s.watch.awake() }

// BeginForTest calls Begin with no wire between.
func (s *Server) BeginForTest(ctx context.Context, req *pb.BeginRequest) {
	_, _ = idempotency{Server: s}.Begin(ctx, req)
}

// Lines is the number of keys that something is kept for because of waiters.
func (s *Server) Lines() int {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	return len(s.waiting.keys)
}

// StrangersHaveSentAll has it seem that strangers sent all they may together.
func (s *Server) StrangersHaveSentAll() { s.conns.strange.Add(strangersBytes) }

// StrangersCallAllTheyMay has it seem that strangers make all calls at once that they
// may together, until StrangersCallNoMore.
func (s *Server) StrangersCallAllTheyMay() { s.conns.strangeCalls.Add(strangersCalls) }

// StrangersCallNoMore ends it.
func (s *Server) StrangersCallNoMore() { s.conns.strangeCalls.Add(-strangersCalls) }

// StrangersCallsSpared is how many calls at once each connection may make in any case.
func (s *Server) StrangersCallsSpared() int { return strangerCallsSpared }

// AwaitNoStrangersCalls returns once no call of a stranger's is counted. It gives ctx's
// cause where that ends first.
func (s *Server) AwaitNoStrangersCalls(ctx context.Context) error {
	for s.conns.strangeCalls.Load() != 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		runtime.Gosched()
	}
	return nil
}

// BoundUntaken has a connection leave so many bytes untaken at most, and all so many.
func (s *Server) BoundUntaken(one, all int64) { s.conns.mayLeave, s.conns.mayLeaveAll = one, all }

// Untaken is what was answered and not yet written, in bytes.
func (s *Server) Untaken() int64 { return s.conns.untaken.Load() }
