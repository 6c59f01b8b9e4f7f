package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// met looks at a call when its headers came, and before its message, which gRPC reads
// before anything else is asked: a connection is its principal's from there on, so that
// who says at once who it is needs no share of what strangers may have. A stranger's
// calls at once are bounded, since each is held in memory for as long as it likes to be
// silent.
//
// It lets in nobody: who may call is asked as of every call.
func (s *Server) met() grpc.ServerOption {
	if s.trust == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		conn := connectionOf(ctx)
		if conn == nil || conn.known.Load() {
			return ctx, nil
		}
		if _, err := s.trust.Identify(ctx, s.clock.Now()); err == nil {
			conn.isKnown()
			return ctx, nil
		}
		if !conn.calls(ctx) {
			s.strangers.log(ctx, s.log, "too many calls", errStrangersCalls)
			return ctx, status.Error(codes.Unavailable, errStrangersCalls.Error())
		}
		return ctx, nil
	})
}

var errStrangersCalls = errors.New("too many calls at once of callers whom nobody knows: show a credential, or come again later")

// calls says whether a stranger's call, which lasts as long as ctx, may be made.
func (c *connection) calls(ctx context.Context) bool {
	mine, all := c.strangeCalls.Add(1), c.all.strangeCalls.Add(1)
	over := func() {
		c.strangeCalls.Add(-1)
		c.all.strangeCalls.Add(-1)
	}
	if mine > strangerCallsSpared && all > strangersCalls {
		over()
		return false
	}
	context.AfterFunc(ctx, over)
	return true
}

// connectionOf gives the connection that a call came by; nil for one of no listener of
// the server's.
func connectionOf(ctx context.Context) *connection {
	if from, ok := peer.FromContext(ctx); ok {
		if at, is := from.Addr.(*address); is {
			return at.of
		}
	}
	return nil
}
