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
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
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

// The claim was committed, its answer was lost, and the retry met its own record.
func TestALostBeginAnswerIsAskedForAgainAndRunsOnce(t *testing.T) {
	w := newWorld(t)
	lost := 0
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "Begin" && lost < 2 {
			lost++
			return errCut
		}
		return err
	}
	runs := 0
	done := background(func() error {
		_, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) (int, error) {
			runs++
			if a.Number() != 1 || a.Takeover() {
				t.Errorf("attempt %d, takeover %v, want the first grant", a.Number(), a.Takeover())
			}
			return 1, nil
		})
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	w.clock.pass(t, 50*time.Millisecond, 200*time.Millisecond)
	if err := recv(t, done, "Do's return"); err != nil {
		t.Errorf("Do = %v", err)
	}
	if runs != 1 || w.seen("Begin") != 3 {
		t.Errorf("%d runs after %d Begins, want 1 after 3", runs, w.seen("Begin"))
	}
	for _, b := range w.begins {
		if b.GetCallId() != w.begins[0].GetCallId() || len(b.GetCallId()) != 32 {
			t.Errorf("call ids %q and %q, want one of 128 bits", w.begins[0].GetCallId(), b.GetCallId())
		}
	}
}

func TestEachBeginHasACallIDOfItsOwn(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		if _, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	if w.begins[0].GetCallId() == w.begins[1].GetCallId() {
		t.Error("two calls share a call id")
	}
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
			w.clock.pass(t, 3*time.Second, 3*time.Second+100*time.Millisecond)
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
	if err := recv(t, done, "Complete's return"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Complete = %v, want ErrUnavailable when its time is over", err)
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

func TestABeginWhoseCallIsOverBeginsOnceMoreWithANewCallID(t *testing.T) {
	for name, refusals := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			left := refusals
			w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
				err := call(ctx)
				if method == "Begin" && left > 0 {
					left--
					w.mu.Lock()
					delete(w.records, key)
					w.mu.Unlock()
					return statusOf(oncekeeper.ErrAlreadySettled, wire.Details{})
				}
				return err
			}
			_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil })
			if wantErr := refusals > 1; errors.Is(err, oncekeeper.ErrAlreadySettled) != wantErr {
				t.Errorf("Do = %v", err)
			}
			if len(w.begins) != 2 || w.begins[0].GetCallId() == w.begins[1].GetCallId() {
				t.Errorf("%d Begins, want two with two call ids", len(w.begins))
			}
		})
	}
}

func TestTextThatIsNotUTF8IsAnInvalidRequest(t *testing.T) {
	w := newWorld(t)
	bad := key
	bad.ID = "\xff"
	for name, call := range map[string]func() error{
		"Begin": func() error { _, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: bad}); return err },
		"a scheme": func() error {
			_, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key, FingerprintScheme: "\xff"})
			return err
		},
		"BatchBegin": func() error {
			_, err := w.keeper.BatchBegin(t.Context(), []client.BeginRequest{{Key: bad}})
			return err
		},
		"Get": func() error { _, err := w.keeper.Get(t.Context(), bad); return err },
	} {
		err := call()
		if !errors.Is(err, oncekeeper.ErrInvalidRequest) || status.Code(err) != codes.InvalidArgument || len(client.FieldViolations(err)) != 1 {
			t.Errorf("%s = %v, want ErrInvalidRequest", name, err)
		}
	}
}

func TestAnAnswerThatIsNotKnownIsInProgressAndNeverRuns(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{}
	answer, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
	if err != nil || answer.InProgress == nil || answer.Grant != nil {
		t.Errorf("Begin = %+v, %v, want in progress", answer, err)
	}
	_, err = client.Do(t.Context(), w.keeper, key, neverRun(t), client.WithWait(0))
	if !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Errorf("Do = %v, want ErrInProgress", err)
	}
}

func TestAGrantWithoutATokenIsNotRun(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{}}}
	if _, err := client.Do(t.Context(), w.keeper, key, neverRun(t)); err == nil {
		t.Error("Do gave no error")
	}
}

func neverRun(t *testing.T) func(context.Context, *client.Attempt) (int, error) {
	return func(context.Context, *client.Attempt) (int, error) {
		t.Error("it ran")
		return 0, nil
	}
}
