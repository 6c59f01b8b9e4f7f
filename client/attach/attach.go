package attach

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// UnaryClientInterceptor gives calls their key and waits for other attempts, as
// the package says. It stands outside interceptors that act on each attempt
// (tracing, credentials), so that they see every one. grpc.Header and
// grpc.Trailer give the last attempt's; grpc.OnFinish is called for each.
//
// Beside what the called service answers, a call gives INVALID_ARGUMENT where the
// named keys differ or one is empty, INTERNAL where the annotated or configured
// key field is none, INTERNAL with ErrAtOnce or ErrStep, and CANCELLED or DEADLINE_EXCEEDED where its context ends
// between two attempts.
//
// What a guard refused is one of the root package's sentinels
// (errors.Is(err, oncekeeper.ErrFingerprintMismatch)) with the status that it came
// as, also where a proxy left of it the trailer oncekeeper-reason alone.
func UnaryClientInterceptor(options ...Option) grpc.UnaryClientInterceptor {
	return newInterceptor(options).intercept
}

func (i *interceptor) intercept(
	ctx context.Context, fullMethod string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	m := i.method(fullMethod)
	sent, _ := metadata.FromOutgoingContext(ctx)
	key, err := m.named(request, callkey.FromOptions(options), sent[callkey.Metadata])
	if err != nil {
		return err
	}
	made, outcome := false, func(error) {}
	if key == "" {
		derived, err := m.derive(ctx, request)
		switch {
		case err != nil:
			return err
		case derived != nil:
			key, made = derived.Key, !derived.Named
			known := false
			outcome = func(err error) { known = outcomeKnown(m.operation, err) }
			defer func() { derived.End(known) }() // where it panics, nothing is known
		case m.keyed:
			made = true
			if key, err = newKey(); err != nil {
				return err
			}
		}
	}
	attempt := func() (metadata.MD, error) {
		var trailer metadata.MD
		err := invoke(ctx, fullMethod, request, reply, conn, append(slices.Clip(options), grpc.Trailer(&trailer))...)
		return trailer, wire.FromError(err, trailer)
	}
	if key == "" {
		_, err := attempt()
		return err
	}
	if made {
		ctx = callkey.WithMade(ctx, callkey.Made{Key: key, Field: m.field})
	}
	if m.field != "" {
		request = callkey.WithField(request, m.field, key)
	}
	if len(sent[callkey.Metadata]) == 0 && callkey.Printable(key) {
		ctx = metadata.AppendToOutgoingContext(ctx, callkey.Metadata, key)
	}
	err = i.repeat(ctx, m.operation, attempt)
	outcome(err)
	return err
}

// repeat calls attempt until its answer stands or there is no time for another.
func (i *interceptor) repeat(ctx context.Context, operation string, attempt func() (metadata.MD, error)) error {
	end := i.clock.Monotonic() + i.timeLeft(ctx)
	for n := 0; ; n++ {
		trailer, err := attempt()
		if err == nil {
			i.budget.Succeeded()
			return nil
		}
		answer := judge(operation, err, trailer, i.retryUnavailable)
		if !answer.retryable {
			return err
		}
		if !answer.free && !i.budget.Failed() {
			return fmt.Errorf("%w (not sent again: too many calls of this connection fail; see attach.WithBudget)", err)
		}
		if answer.refused {
			return err
		}
		delay := i.delays.Delay(n, answer.hint)
		if delay >= end-i.clock.Monotonic() {
			return err
		}
		if clock.Sleep(ctx, i.clock, delay) != nil {
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// timeLeft is how long from now an attempt may still begin.
func (i *interceptor) timeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.Sub(i.clock.Now())
	}
	return i.maxElapsed
}
