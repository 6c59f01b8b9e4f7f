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
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var errCut = status.Error(codes.Unavailable, "connection cut")

// slowGrant has the first grant arrive only after d.
func slowGrant(w *world, d time.Duration, meanwhile func()) {
	slow := true
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "Begin" && slow {
			slow = false
			w.clock.Advance(d)
			if meanwhile != nil {
				meanwhile()
			}
			return err
		}
		return err
	}
}

// lateBegin asks in a way that a slow answer is no time-out.
func lateBegin(t *testing.T, w *world, fn func(context.Context, *client.Attempt) (string, error)) (string, error) {
	t.Helper()
	keeper := client.New(w.conn, append(w.options, client.WithCallTimeout(time.Hour))...)
	return client.Do(t.Context(), keeper, key, fn, client.WithWait(0))
}

func TestAGrantWithLittleOrNothingLeftIsRenewedBeforeItIsRun(t *testing.T) {
	for _, late := range []time.Duration{20 * time.Second, 29 * time.Second, 30 * time.Second, 45 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			w := newWorld(t)
			slowGrant(w, late, nil)
			got, err := lateBegin(t, w, func(context.Context, *client.Attempt) (string, error) {
				if n := w.seen("Renew"); n != 1 {
					t.Errorf("it runs after %d renewals, want 1", n)
				}
				if left := w.record(key).LeaseEnd.Sub(w.now()); left != fakeLease {
					t.Errorf("it runs with %v left, want %v", left, fakeLease)
				}
				return "ran", nil
			})
			if got != "ran" || err != nil {
				t.Errorf("Do = %q, %v", got, err)
			}
		})
	}
}

func TestAGrantWithEnoughLeftIsRunWithoutRenewing(t *testing.T) {
	w := newWorld(t)
	slowGrant(w, 18*time.Second, nil)
	if _, err := lateBegin(t, w, func(context.Context, *client.Attempt) (string, error) { return "", nil }); err != nil {
		t.Error(err)
	}
	if n := w.seen("Renew"); n != 0 {
		t.Errorf("%d renewals, want none", n)
	}
}

func TestAGrantThatAnotherTookOverIsNeverRun(t *testing.T) {
	w := newWorld(t)
	slowGrant(w, 31*time.Second, func() {
		if _, verdict, _ := w.apply(lifecycle.Begin{Key: key, CallID: "other", Grant: oncekeeper.Grant{Lease: fakeLease}}); verdict != lifecycle.Granted {
			t.Errorf("the other one got %v", verdict)
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := lateBegin(t, w, func(context.Context, *client.Attempt) (string, error) {
			t.Error("it ran late")
			return "", nil
		})
		done <- err
	}()
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond) // before it asks again
	if err := recv(t, done, "Do's return"); !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Errorf("Do = %v, want ErrInProgress: the other is running", err)
	}
	if n := w.seen("Begin"); n != 2 {
		t.Errorf("%d Begins, want another after the grant was lost", n)
	}
}

func TestAGrantThatCannotBeRenewedIsGivenBack(t *testing.T) {
	w := newWorld(t, client.WithRetryBudget(0, 0))
	slowGrant(w, 31*time.Second, nil)
	between := w.between
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Renew" {
			return errCut
		}
		return between(ctx, method, call)
	}
	_, err := lateBegin(t, w, func(context.Context, *client.Attempt) (string, error) {
		t.Error("it ran late")
		return "", nil
	})
	if !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
	if rec := w.record(key); rec.State != oncekeeper.StoredReleased {
		t.Errorf("the record is %+v, want it released", rec)
	}
}

func TestLeasesThatEndBeforeTheyCanBeRenewedAreGivenUp(t *testing.T) {
	w := newWorld(t)
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method != "Fail" {
			w.clock.Advance(25 * time.Second)
		}
		return err
	}
	_, err := lateBegin(t, w, func(context.Context, *client.Attempt) (string, error) {
		t.Error("it ran late")
		return "", nil
	})
	if !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("Do = %v, want ErrLeaseLost", err)
	}
	if rec := w.record(key); rec.State != oncekeeper.StoredReleased {
		t.Errorf("the record is %+v, want it released", rec)
	}
}

func TestTimeThatTheServerHeldTheCallDoesNotCountAgainstTheLease(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.apply(lifecycle.Begin{Key: key, CallID: "other", Grant: oncekeeper.Grant{Lease: 8 * time.Second}})
	go func() {
		defer close(hold)
		w.clock.pass(t, 9*time.Second, 10*time.Second)
	}()
	answer, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key, Wait: 10 * time.Second})
	<-hold
	if err != nil || answer.Grant == nil {
		t.Fatalf("Begin = %+v, %v", answer, err)
	}
	// Ten seconds held, thirty of lease, one of margin.
	if want := 39 * time.Second; answer.Grant.TrustedUntil != want {
		t.Errorf("trusted until %v, want %v", answer.Grant.TrustedUntil, want)
	}
}

func TestTheLeaseIsRenewedAtEachThird(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
		for n := 1; n <= 12; n++ {
			w.clock.pass(t, 10*time.Second, 10*time.Second)
			w.clock.await(t, 10*time.Second, 10*time.Second) // for the next
			if got := w.seen("Renew"); got != n {
				t.Errorf("%d renewals after %d thirds", got, n)
			}
		}
		return 1, ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	if rec := w.record(key); rec.State != oncekeeper.StoredCompleted {
		t.Errorf("the record is %+v", rec)
	}
}

func TestALeaseThatAnotherTookEndsTheFunctionAndItsValue(t *testing.T) {
	w := newWorld(t)
	got, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (string, error) {
		rec := w.record(key)
		w.apply(lifecycle.Resolve{Key: key, Etag: rec.Etag(), Force: true})
		w.clock.pass(t, 10*time.Second, 10*time.Second)
		recv(t, ctx.Done(), "the end of the function's context")
		cause := context.Cause(ctx)
		if !errors.Is(cause, client.ErrLeaseLost) || !errors.Is(cause, oncekeeper.ErrFenced) {
			t.Errorf("the cause is %v, want ErrLeaseLost and ErrFenced", cause)
		}
		return "too late", nil
	})
	if got != "" || !errors.Is(err, oncekeeper.ErrFenced) {
		t.Errorf("Do = %q, %v, want no value and ErrFenced", got, err)
	}
}

func TestALeaseThatCannotBeRenewedEndsTheFunctionBeforeAnotherMayRun(t *testing.T) {
	w := newWorld(t)
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Renew" {
			return errCut
		}
		return call(ctx)
	}
	got, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (string, error) {
		w.clock.pass(t, 10*time.Second, 10*time.Second)
		for ctx.Err() == nil {
			if _, ok := w.clock.awaitUnless(t, ctx.Done(), 0, 2*time.Second); !ok {
				break
			}
			w.clock.Advance(100 * time.Millisecond)
			if w.now() > w.record(key).LeaseEnd {
				t.Fatal("the lease is over, and the function was not told")
			}
		}
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrLeaseLost) {
			t.Errorf("the cause is %v, want ErrLeaseLost", cause)
		}
		if left := w.record(key).LeaseEnd.Sub(w.now()); left != time.Second {
			t.Errorf("it was told %v before the end, want the margin of 1 s", left)
		}
		return "done", nil
	})
	if got != "done" || err != nil {
		t.Errorf("Do = %q, %v: nobody took over, so the settlement stands", got, err)
	}
	if n := w.seen("Renew"); n != 0 {
		t.Errorf("%d renewals arrived", n)
	}
}

func TestALeaseThatIsRenewedToNothingIsNotRenewedInAHotLoop(t *testing.T) {
	w := newWorld(t)
	w.renewNothing = true
	_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) {
		w.clock.pass(t, 10*time.Second, 10*time.Second)
		w.clock.await(t, 50*time.Millisecond, 100*time.Millisecond)
		if n := w.seen("Renew"); n != 1 {
			t.Errorf("%d renewals with no pause", n)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestACheckpointRenewsTheLease(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		w.clock.await(t, 10*time.Second, 10*time.Second)
		w.clock.Advance(6 * time.Second)
		if err := a.SaveCheckpoint(ctx, []byte("x")); err != nil {
			t.Error(err)
		}
		w.clock.Advance(4 * time.Second) // it would be time to renew
		w.clock.await(t, 6*time.Second, 6*time.Second)
		if n := w.seen("Renew"); n != 1 {
			t.Errorf("%d renewals, want the checkpoint's alone", n)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTheMaximumRunTimeEndsTheFunctionAndTheRenewing(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
		w.clock.pass(t, 5*time.Second+1, 6*time.Second)
		recv(t, ctx.Done(), "the end of the function's context")
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrRunTime) {
			t.Errorf("the cause is %v, want ErrRunTime", cause)
		}
		w.clock.awaitNone(t, 10*time.Second, 10*time.Second)
		return 1, nil
	}, client.WithMaxRunTime(6*time.Second))
	if err != nil {
		t.Errorf("Do = %v: it ran all the same", err)
	}
}
