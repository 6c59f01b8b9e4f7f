package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// This file turns errors into statuses; nothing else in the server does. What
// wraps a sentinel is for the log: a caller gets the sentinel's own words.

// retryAfter is when to come back from an error that passes; zero for one that
// does not.
func retryAfter(s *oncekeeper.Error) time.Duration {
	switch {
	case errors.Is(s, oncekeeper.ErrOverloaded):
		return 250 * time.Millisecond
	case errors.Is(s, oncekeeper.ErrStoreUnavailable):
		return 500 * time.Millisecond
	default:
		return 0
	}
}

// busy is a live record that an operator may not change without force. It is
// ErrInProgress.
type busy struct{ left time.Duration }

func (e *busy) Error() string { return oncekeeper.ErrInProgress.Error() }
func (e *busy) Unwrap() error { return oncekeeper.ErrInProgress }

// unfit is what this server, as it was set up, cannot do. No reason stands for it:
// whoever set it up reads its words.
type unfit struct{ text string }

func (e *unfit) Error() string { return e.text }

// fault gives the sentinel in err and what travels with it. A sentinel of nil is
// an error that has none.
func fault(err error) (*oncekeeper.Error, wire.Details) {
	s, ok := oncekeeper.SentinelOf(err)
	if !ok {
		return nil, wire.Details{}
	}
	d := wire.Details{RetryDelay: retryAfter(s)}
	if bad := (*invalid)(nil); errors.As(err, &bad) {
		d.Violations = bad.violations
	}
	if live := (*busy)(nil); errors.As(err, &live) {
		d.RetryDelay = retryDelay(live.left)
	}
	return s, d
}

// statusOf gives what a call about operation answers for err, and sets the
// reason's trailer.
func (s *Server) statusOf(ctx context.Context, err error, operation string) error {
	sentinel, details := fault(err)
	if sentinel != nil {
		s.logFault(ctx, sentinel, err)
		if refusesOperation(details) {
			operation = "" // it may be larger than any client takes in an answer's trailer
		}
		// It fails only where the headers are gone, and then the details tell.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ReasonTrailer, sentinel.Reason()))
		return wire.Status(sentinel, operation, details).Err()
	}
	return s.withoutSentinel(ctx, err).Err()
}

func refusesOperation(d wire.Details) bool {
	return slices.ContainsFunc(d.Violations, func(v wire.FieldViolation) bool { return v.Field == "key.operation" })
}

// batchError is statusOf for an item of a batch.
func (s *Server) batchError(ctx context.Context, err error) *pb.BatchError {
	sentinel, details := fault(err)
	if sentinel != nil {
		s.logFault(ctx, sentinel, err)
		return wire.BatchErrorToProto(sentinel, details)
	}
	st := s.withoutSentinel(ctx, err)
	return &pb.BatchError{Code: int32(st.Code()), Message: st.Message()}
}

// withoutSentinel tells the caller's own end from a fault that nobody foresaw,
// which is logged whole and told to nobody.
func (s *Server) withoutSentinel(ctx context.Context, err error) *status.Status {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err)
	}
	if e := (*unfit)(nil); errors.As(err, &e) {
		return status.New(codes.FailedPrecondition, e.text)
	}
	s.log.ErrorContext(ctx, "a fault that nobody foresaw: please report it", "error", err)
	return status.New(codes.Internal, "an internal fault: the server's log has it")
}

// logFault logs what an operator must know, once in a while however often it
// comes; the rest is the normal life of callers.
func (s *Server) logFault(ctx context.Context, sentinel *oncekeeper.Error, err error) {
	if retryAfter(sentinel) == 0 {
		s.log.DebugContext(ctx, "refused", "reason", sentinel.Reason(), "error", err)
		return
	}
	s.faults.log(ctx, s.log, sentinel.Reason(), err)
}
