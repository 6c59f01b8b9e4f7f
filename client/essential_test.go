package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// noVerdicts are codes that a transport or a proxy gives of its own.
var noVerdicts = []codes.Code{
	codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unavailable,
	codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.NotFound,
}

func TestACallThatMustBeMadeIsRetriedAtEverythingButAVerdict(t *testing.T) {
	calls := map[string]func(ctx context.Context, w *world, token int64) error{
		"Complete": func(ctx context.Context, w *world, token int64) error {
			_, err := w.keeper.Complete(ctx, key, token, &oncekeeper.Response{})
			return err
		},
		"Fail": func(ctx context.Context, w *world, token int64) error {
			_, err := w.keeper.Fail(ctx, key, token, oncekeeper.SettledRetryable, nil)
			return err
		},
		"Renew": func(ctx context.Context, w *world, token int64) error {
			_, err := w.keeper.Renew(ctx, client.RenewRequest{Key: key, Token: token})
			return err
		},
		"BatchSettle": func(ctx context.Context, w *world, token int64) error {
			_, err := w.keeper.BatchSettle(ctx, []client.Settlement{{Key: key, Token: token, Ended: client.Ended{As: oncekeeper.SettledRetryable}}})
			return err
		},
	}
	for name, call := range calls {
		for _, code := range noVerdicts {
			t.Run(name+" "+code.String(), func(t *testing.T) {
				w := newWorld(t, client.WithRetryBudget(0, 0)) // nothing else is retried
				token := other(t, w)
				tries := 0
				w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
					if tries++; tries == 1 {
						return status.Error(code, "stream terminated by RST_STREAM")
					}
					return call(ctx)
				}
				returned := make(chan struct{})
				var err error
				go func() {
					defer close(returned)
					err = call(t.Context(), w, token)
				}()
				if pause, ok := w.clock.awaitUnless(t, returned, 50*time.Millisecond, 100*time.Millisecond); ok {
					w.clock.Advance(pause)
				}
				recv(t, returned, name+"'s return")
				if err != nil || tries != 2 {
					t.Errorf("it gave %v after %d tries, want no error after 2", err, tries)
				}
			})
		}
	}
}

func TestAVerdictOnASettlementIsNotAskedForAgain(t *testing.T) {
	large := status.Error(codes.ResourceExhausted, "trying to send message larger than max")
	invalid := statusOf(oncekeeper.ErrInvalidRequest, wire.Details{})
	for _, verdict := range []error{
		statusOf(oncekeeper.ErrFenced, wire.Details{}), statusOf(oncekeeper.ErrKeyNotFound, wire.Details{}),
		statusOf(oncekeeper.ErrPermissionDenied, wire.Details{}), large, invalid,
	} {
		w := newWorld(t)
		tries := 0
		w.between = func(context.Context, string, func(context.Context) error) error { tries++; return verdict }
		_, err := w.keeper.Complete(t.Context(), key, 1, &oncekeeper.Response{})
		if status.Code(err) != status.Code(verdict) || errors.Is(err, client.ErrUnavailable) || tries != 1 {
			t.Errorf("Complete = %v after %d tries, want %v after 1", err, tries, verdict)
		}
	}
}

func TestASettlementThatCannotTravelIsAnInvalidRequest(t *testing.T) {
	w := newWorld(t)
	bad := key
	bad.ID = "\xff"
	complete := func(r *oncekeeper.Response) client.Settlement {
		return client.Settlement{Key: key, Token: 1, Ended: client.Ended{As: oncekeeper.SettledComplete, Response: r}}
	}
	for name, s := range map[string]client.Settlement{
		"key":          {Key: bad, Token: 1, Ended: client.Ended{As: oncekeeper.SettledRetryable}},
		"content type": complete(&oncekeeper.Response{ContentType: "\xff"}),
		"message":      {Key: key, Token: 1, Ended: client.Ended{As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: 5, Message: "\xff"}}},
	} {
		_, err := w.keeper.Settle(t.Context(), s)
		_, batchErr := w.keeper.BatchSettle(t.Context(), []client.Settlement{s})
		if !errors.Is(err, oncekeeper.ErrInvalidRequest) || !errors.Is(batchErr, oncekeeper.ErrInvalidRequest) {
			t.Errorf("a %s that is not UTF-8: Settle = %v, BatchSettle = %v, want ErrInvalidRequest", name, err, batchErr)
		}
	}
	if _, err := w.keeper.Renew(t.Context(), client.RenewRequest{Key: bad, Token: 1}); !errors.Is(err, oncekeeper.ErrInvalidRequest) {
		t.Errorf("Renew = %v, want ErrInvalidRequest", err)
	}
	if n := len(w.calls); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}
