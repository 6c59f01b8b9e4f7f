package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// The inner call did nothing, and the outer one did something before it.
func TestAMarkOfAnInnerDoNeverSettlesTheOuterOne(t *testing.T) {
	inner := key
	inner.ID = "inner"
	closed := errors.New("bank closed")
	for name, mark := range map[string]func(error) error{"not applied": oncekeeper.NotApplied, "final": oncekeeper.Final} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
				_, err := client.Do(ctx, w.keeper, inner, func(context.Context, *client.Attempt) (int, error) { return 0, mark(closed) })
				return 0, fmt.Errorf("crediting: %w", err)
			})
			if !errors.Is(err, closed) {
				t.Errorf("Do = %v, want the inner function's error in it", err)
			}
			if rec := w.record(inner); rec.Last == oncekeeper.SettledUnknown {
				t.Errorf("the inner one is settled as %d, want as it was marked", rec.Last)
			}
			if rec := w.record(key); rec.Last != oncekeeper.SettledUnknown {
				t.Errorf("the outer one is settled as %d, want as unknown: its own effect may stand", rec.Last)
			}
		})
	}
}

type refusedCard struct{ reason string }

func (r *refusedCard) Error() string { return r.reason }
func (r *refusedCard) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, r.reason)
}

func TestTheFirstCallersErrorKeepsItsTypeAndItsStatus(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) {
		return 0, oncekeeper.Final(&refusedCard{"expired"})
	})
	var card *refusedCard
	if !errors.As(err, &card) || err.Error() != "expired" || status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Do = %v with code %v, want the card's own error", err, status.Code(err))
	}
	plain := status.Error(codes.NotFound, "no such card")
	another := key
	another.ID = "another"
	_, err = client.Do(t.Context(), w.keeper, another, func(context.Context, *client.Attempt) (int, error) { return 0, plain })
	if got := status.Convert(err); got.Message() != "no such card" {
		t.Errorf("Do = %v, want a status that nothing marked as it was", got)
	}
}

func TestAnErrorOfAnyCallTellsItsSentinel(t *testing.T) {
	ordinary := status.Error(codes.FailedPrecondition, "account closed")
	mismatch := fmt.Errorf("charge: %w", statusOf(oncekeeper.ErrFingerprintMismatch, wire.Details{}))
	got := client.FromError(mismatch)
	if !errors.Is(got, oncekeeper.ErrFingerprintMismatch) || status.Code(got) != codes.FailedPrecondition || client.Operation(got) != key.Operation {
		t.Errorf("FromError = %v, want ErrFingerprintMismatch about the operation", got)
	}
	if got := client.FromError(ordinary); !errors.Is(got, ordinary) || client.OfService(got) {
		t.Errorf("FromError = %v, want another's error as it came", got)
	}
	if got := client.FromError(nil); got != nil {
		t.Errorf("FromError(nil) = %v", got)
	}
}
