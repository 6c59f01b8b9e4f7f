package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

var key = oncekeeper.Key{Tenant: "acme", Operation: "orders.v1.Orders/Charge", ID: "k-1"}

// A caller may hang up at any step. What was begun is settled all the same, there
// is one effect, and the retry gets its answer.
func TestAHangUpAtAnyStepLeavesOneEffectAndASettledKey(t *testing.T) {
	type steps struct {
		before, after string // cancel before or after this call is made
		atServer      string // cancel while the service has it
		running       bool   // cancel inside the function
	}
	for name, at := range map[string]steps{
		"before Begin is sent":             {before: "Begin"},
		"while the service has Begin":      {atServer: "Begin"},
		"after the grant, before the run":  {after: "Begin"},
		"while running":                    {running: true},
		"between the return and Complete":  {before: "Complete"},
		"while the service has Complete":   {atServer: "Complete"},
		"after Complete, before its reply": {after: "Complete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
				if method == at.before {
					hangUp()
				}
				err := call(ctx)
				if method == at.after {
					hangUp()
				}
				return err
			}
			w.gate = func(_ context.Context, method string) {
				if method == at.atServer {
					hangUp()
				}
			}
			effects := 0
			charge := func(ctx context.Context, a *client.Attempt) (string, error) {
				if at.running {
					hangUp()
				}
				if err := ctx.Err(); err != nil {
					t.Errorf("the function's context ended with its caller: %v", err)
				}
				if a.Takeover() {
					t.Error("the attempt is a takeover, though no outcome is unknown")
				}
				effects++
				return "charged", nil
			}
			_, err := client.Do(ctx, w.keeper, key, charge)
			if ran := effects == 1; ran && err != nil {
				t.Errorf("it ran, and the caller was told %v", err)
			} else if !ran && !errors.Is(err, context.Canceled) {
				t.Errorf("it did not run, and the caller was told %v, want context.Canceled", err)
			}
			if rec := w.record(key); rec != nil && rec.State == oncekeeper.StoredPending {
				t.Errorf("the key was left pending: %+v", rec)
			}

			w.between, w.gate = nil, nil
			got, err := client.Do(t.Context(), w.keeper, key, charge)
			if err != nil || got != "charged" {
				t.Errorf("the retry got %q, %v", got, err)
			}
			if effects != 1 {
				t.Errorf("there were %d effects, want 1", effects)
			}
		})
	}
}

func TestADeadlineThatPassesWhileRunningDoesNotReachTheFunction(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	_, err := client.Do(ctx, w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
		if d, ok := ctx.Deadline(); ok {
			t.Errorf("the function's context has the deadline %v", d)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestABeginThatIsNotAnsweredDoesNotKeepACallerThatLeft(t *testing.T) {
	w := newWorld(t)
	ctx, hangUp := context.WithCancel(t.Context())
	asked := make(chan struct{})
	var once sync.Once
	w.gate = func(ctx context.Context, _ string) {
		once.Do(func() { close(asked) })
		<-ctx.Done()
	}
	done := make(chan error, 1)
	go func() {
		_, err := client.Do(ctx, w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil })
		done <- err
	}()
	recv(t, asked, "Begin")
	hangUp()
	w.clock.pass(t, time.Second, time.Second)
	if err := recv(t, done, "Do's return"); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want context.Canceled", err)
	}
}

func TestACallerThatLeftIsNotKeptByAGrantThatCannotBeGivenBack(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(time.Hour))
	ctx, hangUp := context.WithCancel(t.Context())
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Fail" {
			<-ctx.Done()
			return ctx.Err()
		}
		defer hangUp()
		return call(ctx)
	}
	done := background(func() error {
		_, err := client.Do(ctx, w.keeper, key, neverRun(t))
		return err
	})
	w.clock.pass(t, 5*time.Second, 5*time.Second)
	if err := recv(t, done, "Do's return"); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want context.Canceled", err)
	}
}

func TestACallerWhoseContextHasEndedAsksNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	cancel(gone)
	_, err := client.Do(ctx, w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil })
	if !errors.Is(err, gone) || !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want the cause and context.Canceled", err)
	}
	if n := w.seen("Begin"); n != 0 {
		t.Errorf("%d Begins were sent", n)
	}
}

func TestAGrantThatBeginGetsTooLateIsGivenBack(t *testing.T) {
	w := newWorld(t)
	ctx, hangUp := context.WithCancel(t.Context())
	w.gate = func(_ context.Context, method string) {
		if method == "Begin" {
			hangUp()
		}
	}
	if _, err := w.keeper.Begin(ctx, client.BeginRequest{Key: key}); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin = %v, want context.Canceled", err)
	}
	if rec := w.record(key); rec == nil || rec.State != oncekeeper.StoredReleased {
		t.Errorf("the record is %+v, want it released", rec)
	}
}
