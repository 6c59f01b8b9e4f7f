package client_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

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

func TestNothingRenewsAnyMoreWhenTheAttemptIsSettled(t *testing.T) {
	w := newWorld(t)
	renewing := make(chan struct{})
	var over atomic.Bool
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		switch method {
		case "Renew":
			close(renewing)
			<-ctx.Done()
			for range 1000 { // let a settlement that does not wait go ahead
				runtime.Gosched()
			}
			over.Store(true)
			return errCut
		case "Complete":
			if !over.Load() {
				t.Error("it is settled while it is being renewed")
			}
		}
		return call(ctx)
	}
	_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) {
		w.clock.pass(t, 10*time.Second, 10*time.Second)
		recv(t, renewing, "the renewal")
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestARenewalThatIsSwallowedLastsNoLongerThanTheLease(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(time.Hour))
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Renew" {
			<-ctx.Done()
			return errCut
		}
		return call(ctx)
	}
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
		w.clock.pass(t, 10*time.Second, 10*time.Second)
		w.clock.pass(t, 19*time.Second, 19*time.Second) // thirty, less ten and the margin
		recv(t, ctx.Done(), "the end of the function's context")
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrLeaseLost) {
			t.Errorf("the cause is %v, want ErrLeaseLost", cause)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// hastyClock has a lease be over before whoever begins to keep it has its timer.
type hastyClock struct{ *testClock }

func (c hastyClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	timer := c.testClock.AfterFunc(d, f)
	if d == fakeLease/3 {
		go c.Advance(fakeLease)
	}
	return timer
}

func TestALeaseThatIsOverAsSoonAsItIsKeptEndsTheFunction(t *testing.T) {
	w := newWorld(t)
	w.keeper = client.New(w.conn, append(w.options, client.WithClock(hastyClock{w.clock}))...)
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
		recv(t, ctx.Done(), "the end of the function's context")
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrLeaseLost) {
			t.Errorf("the cause is %v, want ErrLeaseLost", cause)
		}
		return 1, nil
	})
	if rec := w.record(key); rec.Attempt != 1 {
		t.Errorf("Do = %v, and the record is %+v; want one attempt", err, rec)
	}
}
