package grpcguard

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// pushbackTrailer is gRPC A6's: milliseconds until the next attempt.
const pushbackTrailer = "grpc-retry-pushback-ms"

// Delays that callers are asked to wait where the service named none.
const (
	inProgressDelay = 250 * time.Millisecond
	// supersededDelay: the other attempt has a head start.
	supersededDelay  = 100 * time.Millisecond
	unavailableDelay = time.Second
)

func refuse(sentinel error, operation string) error {
	return refuseWith(sentinel, operation, wire.Details{})
}

func refuseWith(sentinel error, operation string, d wire.Details) error {
	s, _ := oncekeeper.SentinelOf(sentinel)
	return wire.FromError(wire.Status(s, operation, d).Err(), nil)
}

// unresolved is the refusal of a call whose key is held. The token is no secret:
// to settle with it takes a credential of Oncekeeper's.
func unresolved(m *method, u *client.Unresolved) error {
	return refuseWith(oncekeeper.ErrUnresolved, m.operation, wire.Details{Metadata: map[string]string{
		tokenKey: strconv.FormatInt(u.Token, 10), attemptNumberKey: strconv.FormatInt(int64(u.Number), 10),
	}})
}

// inProgress asks the caller to come back.
func (o *once) inProgress(m *method, delay time.Duration) error {
	if delay <= 0 {
		delay = inProgressDelay
	}
	sentinel, _ := oncekeeper.SentinelOf(oncekeeper.ErrInProgress)
	st := wire.Status(sentinel, m.operation, wire.Details{RetryDelay: delay})
	if o.InProgressUnavailable {
		p := st.Proto()
		p.Code = int32(codes.Unavailable)
		st = status.FromProto(p)
	}
	return wire.FromError(st.Err(), nil)
}

// notBegun turns an error of Run that ran nothing into the caller's. What the
// caller cannot mend is logged and told as a fault of this service's: the guard's
// own credentials are not the caller's.
func (o *once) notBegun(ctx context.Context, m *method, err error) error {
	switch {
	case errors.Is(err, oncekeeper.ErrFingerprintMismatch):
		o.stats.mismatch.Add(1)
		return refuse(oncekeeper.ErrFingerprintMismatch, m.operation)
	case errors.Is(err, oncekeeper.ErrInvalidRequest):
		return o.invalid(ctx, m, err)
	case errors.Is(err, oncekeeper.ErrAlreadySettled):
		o.stats.inProgress.Add(1)
		return o.inProgress(m, 0)
	case ctx.Err() != nil:
		o.stats.left.Add(1)
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, client.ErrNested):
		o.stats.unavailable.Add(1)
		o.faults.Report(ctx, m.operation, "a call is guarded inside itself: is there a guard twice in the chain?", err)
		return status.Error(codes.Internal, "the call is guarded inside itself")
	case !errors.Is(err, client.ErrUnavailable):
		o.faults.Report(ctx, m.operation, "Oncekeeper does not serve this guard", err)
	}
	o.stats.unavailable.Add(1)
	delay, ok := client.RetryDelay(err)
	if !ok {
		delay = unavailableDelay
	}
	return refuseWith(oncekeeper.ErrStoreUnavailable, m.operation, wire.Details{RetryDelay: delay})
}

// invalid blames the caller for its key alone; all else of a Begin is the guard's
// own configuration.
func (o *once) invalid(ctx context.Context, m *method, err error) error {
	violations := client.FieldViolations(err)
	for _, v := range violations {
		if v.Field == "key.id" {
			o.stats.refused.Add(1)
			return refuseWith(oncekeeper.ErrInvalidRequest, m.operation, wire.Details{
				Violations: []wire.FieldViolation{{Field: m.keyPlace(), Description: v.Description}},
			})
		}
	}
	if len(violations) == 0 {
		o.stats.refused.Add(1)
		return refuse(oncekeeper.ErrInvalidRequest, m.operation)
	}
	o.stats.unavailable.Add(1)
	o.faults.Report(ctx, m.operation, "Oncekeeper refuses what this guard asks for", err)
	return status.Error(codes.Internal, "the guard is configured wrongly: its log has it")
}

// refusalTrailer is what a refusal says in the trailer.
func refusalTrailer(err error) metadata.MD {
	var ours *wire.Error
	if !errors.As(err, &ours) {
		return nil
	}
	sentinel, _ := oncekeeper.SentinelOf(ours)
	md := metadata.Pairs(wire.ReasonTrailer, sentinel.Reason())
	if ours.RetryDelay > 0 {
		ms := min((ours.RetryDelay + time.Millisecond - 1).Milliseconds(), 1<<31-1)
		md.Set(pushbackTrailer, strconv.FormatInt(ms, 10))
	}
	return md
}
