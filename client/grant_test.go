package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

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
	slowGrant(w, 9*time.Second, nil) // a third, after which it is renewed while it runs, is not over
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

func TestAGrantWhoseAnswerWasLostForMostOfItsLeaseIsRenewedBeforeItIsRun(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(time.Hour))
	lost := false
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "Begin" && !lost {
			lost = true
			w.clock.Advance(29500 * time.Millisecond)
			return errCut
		}
		return err
	}
	done := background(func() error {
		_, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) (int, error) {
			if n := w.seen("Renew"); n != 1 || a.Number() != 1 {
				t.Errorf("attempt %d runs after %d renewals, want the first after 1", a.Number(), n)
			}
			return 1, nil
		})
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	if err := recv(t, done, "Do's return"); err != nil {
		t.Error(err)
	}
}

func TestAKeyThatIsLostAgainAndAgainIsGivenUp(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(time.Hour))
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "Begin" {
			w.clock.Advance(31 * time.Second)
			w.apply(lifecycle.Delete{Key: key, Etag: w.record(key).Etag(), Force: true})
		}
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := client.Do(t.Context(), w.keeper, key, neverRun(t)); !errors.Is(err, client.ErrLeaseLost) || errors.Is(err, oncekeeper.ErrFenced) {
			t.Errorf("Do = %v, want ErrLeaseLost: no attempt ran that could be fenced", err)
		}
	}()
	for {
		d, ok := w.clock.awaitUnless(t, done, 50*time.Millisecond, 2*time.Second)
		if !ok {
			break
		}
		w.clock.Advance(d)
	}
	if n := w.seen("Begin"); n != 5 {
		t.Errorf("%d Begins, want 5", n)
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

func TestTimeThatCannotHaveBeenWaitedIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{
		FencingToken: 1, Lease: wire.DurationToProto(fakeLease), Waited: wire.DurationToProto(time.Hour),
	}}}
	answer, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
	if err != nil || answer.Grant == nil || answer.Grant.TrustedUntil != 29*time.Second {
		t.Errorf("Begin = %+v, %v, want it trusted for 29 s from its sending", answer.Grant, err)
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
