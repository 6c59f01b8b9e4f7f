package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

func statusOf(sentinel error, d wire.Details) error {
	s, _ := oncekeeper.SentinelOf(sentinel)
	return wire.Status(s, key.Operation, d).Err()
}

// background runs f and gives its error; the test moves the clock meanwhile.
func background(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func TestALostCompleteAnswerIsSaidAgain(t *testing.T) {
	w := newWorld(t)
	lost := false
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "Complete" && !lost {
			lost = true
			return errCut
		}
		return err
	}
	done := background(func() error {
		_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil })
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	if err := recv(t, done, "Do's return"); err != nil || w.seen("Complete") != 2 {
		t.Errorf("Do = %v after %d Completes", err, w.seen("Complete"))
	}
}

func TestAFinalErrorGetsOneAttempt(t *testing.T) {
	once := []error{
		oncekeeper.ErrInvalidRequest, oncekeeper.ErrFingerprintMismatch, oncekeeper.ErrFenced, oncekeeper.ErrUnresolved,
		oncekeeper.ErrKeyNotFound, oncekeeper.ErrInProgress, oncekeeper.ErrResponseNotKept, oncekeeper.ErrUnauthenticated,
		oncekeeper.ErrPermissionDenied, oncekeeper.ErrAttemptsExhausted, oncekeeper.ErrAskAlone, oncekeeper.ErrEtagMismatch,
		oncekeeper.ErrAlreadySettled,
	}
	for _, sentinel := range once {
		t.Run(sentinel.Error(), func(t *testing.T) {
			w := newWorld(t)
			var tries int
			w.between = func(context.Context, string, func(context.Context) error) error {
				tries++
				return statusOf(sentinel, wire.Details{RetryDelay: time.Second})
			}
			_, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
			if !errors.Is(err, sentinel) || errors.Is(err, client.ErrUnavailable) || tries != 1 {
				t.Errorf("Begin = %v after %d tries, want the sentinel after 1", err, tries)
			}
			if op := client.Operation(err); op != key.Operation {
				t.Errorf("the error's operation is %q", op)
			}
		})
	}
	for _, code := range []codes.Code{codes.Internal, codes.InvalidArgument, codes.ResourceExhausted, codes.Unimplemented} {
		t.Run(code.String(), func(t *testing.T) {
			w := newWorld(t)
			var tries int
			w.between = func(context.Context, string, func(context.Context) error) error {
				tries++
				return status.Error(code, "no")
			}
			if _, err := w.keeper.Get(t.Context(), key); status.Code(err) != code || tries != 1 {
				t.Errorf("Get = %v after %d tries", err, tries)
			}
		})
	}
}

func TestOverloadedAndStoreUnavailableAreRetriedAfterTheDelayAskedFor(t *testing.T) {
	for _, sentinel := range []error{oncekeeper.ErrOverloaded, oncekeeper.ErrStoreUnavailable} {
		t.Run(sentinel.Error(), func(t *testing.T) {
			w := newWorld(t)
			tries := 0
			w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
				if tries++; tries == 1 {
					return statusOf(sentinel, wire.Details{RetryDelay: 3 * time.Second})
				}
				return call(ctx)
			}
			done := background(func() error {
				_, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
				return err
			})
			w.clock.pass(t, 3*time.Second, 3600*time.Millisecond)
			if err := recv(t, done, "Begin's return"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnOutageSpendsTheBudgetAndThenFailsAtOnce(t *testing.T) {
	w := newWorld(t)
	var tries atomic.Int32
	w.between = func(context.Context, string, func(context.Context) error) error {
		tries.Add(1)
		return errCut
	}
	get := func() error {
		_, err := w.keeper.Get(t.Context(), key)
		return err
	}
	done := background(get)
	for range 4 { // ten tokens: the fifth failure leaves half of them
		w.clock.pass(t, 50*time.Millisecond, 2*time.Second)
	}
	if err := recv(t, done, "Get's return"); !errors.Is(err, client.ErrUnavailable) || status.Code(err) != codes.Unavailable {
		t.Errorf("Get = %v, want ErrUnavailable", err)
	}
	if n := tries.Load(); n != 5 {
		t.Errorf("%d tries, want 5", n)
	}
	if err := get(); !errors.Is(err, client.ErrUnavailable) || tries.Load() != 6 {
		t.Errorf("Get = %v after %d tries, want one more", err, tries.Load()-5)
	}

	// A settlement is worth more than the budget.
	done = background(func() error {
		_, err := w.keeper.Complete(t.Context(), key, 1, &oncekeeper.Response{})
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	w.clock.await(t, 50*time.Millisecond, 200*time.Millisecond)
	if n := tries.Load(); n != 8 {
		t.Errorf("a settlement was tried %d times, want 2", n-6)
	}
	w.clock.Advance(client.DefaultSettleTimeout)
	if err := recv(t, done, "Complete's return"); !errors.Is(err, client.ErrUnavailable) || status.Code(err) != codes.Unavailable || errors.Is(err, context.Canceled) {
		t.Errorf("Complete = %v, want ErrUnavailable when its time is over, and nobody's cancellation", err)
	}
}

func TestSuccessesRefillTheBudget(t *testing.T) {
	w := newWorld(t, client.WithRetryBudget(3, 1))
	cut := false
	w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
		if cut = !cut; cut {
			return errCut
		}
		return call(ctx)
	}
	for range 3 { // each fails once, which takes a token, and then succeeds
		done := background(func() error {
			_, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
			return err
		})
		select {
		case err := <-done:
			t.Fatalf("Begin = %v without a retry", err)
		default:
		}
		w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
		if err := recv(t, done, "Begin's return"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoPauseGoesPastTheCallersDeadline(t *testing.T) {
	w := newWorld(t)
	w.between = func(context.Context, string, func(context.Context) error) error {
		return statusOf(oncekeeper.ErrOverloaded, wire.Details{RetryDelay: time.Minute})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	_, err := w.keeper.Begin(ctx, client.BeginRequest{Key: key})
	if delay, ok := client.RetryDelay(err); !errors.Is(err, oncekeeper.ErrOverloaded) || !ok || delay != time.Minute || ctx.Err() != nil {
		t.Errorf("Begin = %v with delay %v, want ErrOverloaded at once", err, delay)
	}
}

func TestAConnectionThatSwallowsEverythingIsGivenUpAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	swallowed := make(chan bool, 1)
	var tries atomic.Int32
	w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
		if tries.Add(1) == 1 {
			_, hasDeadline := ctx.Deadline()
			swallowed <- hasDeadline
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return call(ctx)
	}
	done := background(func() error {
		_, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key, Wait: 7 * time.Second})
		return err
	})
	if !recv(t, swallowed, "the first try") {
		t.Error("the try has no deadline for the server to see")
	}
	w.clock.pass(t, 12*time.Second, 12*time.Second) // its time-out, with room for the wait
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	if err := recv(t, done, "Begin's return"); err != nil || tries.Load() != 2 {
		t.Errorf("Begin = %v after %d tries", err, tries.Load())
	}
}

func TestASettlementThatIsSwallowedEndsWithItsTime(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(time.Hour))
	swallowed := make(chan struct{})
	w.between = func(ctx context.Context, _ string, _ func(context.Context) error) error {
		close(swallowed)
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	done := background(func() error {
		_, err := w.keeper.Fail(t.Context(), key, 1, oncekeeper.SettledRetryable, nil)
		return err
	})
	recv(t, swallowed, "the settlement")
	w.clock.pass(t, client.DefaultSettleTimeout, client.DefaultSettleTimeout)
	if err := recv(t, done, "Fail's return"); !errors.Is(err, client.ErrUnavailable) || status.Code(err) != codes.Unavailable {
		t.Errorf("Fail = %v, want ErrUnavailable", err)
	}
}

func TestACallerThatEndsAnOutageIsToldOfBoth(t *testing.T) {
	w := newWorld(t)
	w.between = func(context.Context, string, func(context.Context) error) error { return errCut }
	ctx, hangUp := context.WithCancel(t.Context())
	done := background(func() error {
		_, err := w.keeper.Get(ctx, key)
		return err
	})
	w.clock.await(t, 50*time.Millisecond, 100*time.Millisecond)
	hangUp()
	if err := recv(t, done, "Get's return"); !errors.Is(err, context.Canceled) || !errors.Is(err, errCut) || status.Code(err) != codes.Canceled {
		t.Errorf("Get = %v, want context.Canceled and the outage", err)
	}
}

func TestTheDetailsOfAnInvalidRequestAreGiven(t *testing.T) {
	w := newWorld(t)
	w.between = func(context.Context, string, func(context.Context) error) error {
		return statusOf(oncekeeper.ErrInvalidRequest, wire.Details{Violations: []wire.FieldViolation{{Field: "key.id", Description: "is empty"}}})
	}
	_, err := w.keeper.Get(t.Context(), key)
	if got := client.FieldViolations(err); len(got) != 1 || got[0] != (client.FieldViolation{Field: "key.id", Description: "is empty"}) {
		t.Errorf("violations are %v", got)
	}
	if client.FieldViolations(errCut) != nil || client.Operation(errCut) != "" {
		t.Error("another's error has violations or an operation")
	}
}
