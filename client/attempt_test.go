package client_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

func TestDoInsideItsOwnFunctionFailsAtOnce(t *testing.T) {
	w := newWorld(t)
	another := key
	another.ID = "another"
	var kept context.Context
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, _ *client.Attempt) (int, error) {
		kept = ctx
		_, err := client.Do(ctx, w.keeper, another, func(ctx context.Context, _ *client.Attempt) (int, error) {
			for name, inner := range map[string]context.Context{"its context": ctx, "a detached one": context.WithoutCancel(ctx)} {
				if _, err := client.Do(inner, w.keeper, key, neverRun(t)); !errors.Is(err, client.ErrNested) {
					t.Errorf("Do with %s = %v, want ErrNested", name, err)
				}
			}
			return 1, nil
		})
		if err != nil {
			t.Errorf("Do of another key = %v", err)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := w.seen("Begin"); n != 2 {
		t.Errorf("%d Begins, want the two that were not nested", n)
	}
	if got, err := client.Do(context.WithoutCancel(kept), w.keeper, key, neverRun(t)); got != 1 || err != nil {
		t.Errorf("once it has returned, Do = %d, %v, want the replay", got, err)
	}
}

func TestAnAttemptKnowsItself(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		if b, ok := client.AttemptFromContext(ctx); !ok || a != b {
			t.Error("the context does not carry the attempt")
		}
		scheme, digest := a.Fingerprint()
		if a.Key() != key || a.Token() != w.record(key).Token || a.Number() != 1 || a.Takeover() || a.Checkpoint() != nil ||
			a.MaxResponseBytes() != w.maxBytes || scheme != "raw" || string(digest) != "d" {
			t.Errorf("the attempt is %+v", a)
		}
		return 1, nil
	}, client.WithFingerprint("raw", []byte("d")))
	if err != nil {
		t.Error(err)
	}
	if _, ok := client.AttemptFromContext(t.Context()); ok {
		t.Error("a context outside an attempt carries one")
	}
}

func TestAnAttemptThatIsOverLeavesNothingWaiting(t *testing.T) {
	w := newWorld(t)
	if _, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		return 1, a.SaveCheckpoint(ctx, nil)
	}); err != nil {
		t.Error(err)
	}
	if d, _, left := w.clock.find(0, 24*time.Hour); left {
		t.Errorf("something waits for %v", d)
	}
}

func TestACheckpointReachesTheNextAttempt(t *testing.T) {
	w := newWorld(t)
	var first *client.Attempt
	_, _ = client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		first = a
		step := []byte("step 1")
		if err := a.SaveCheckpoint(ctx, step); err != nil {
			t.Error(err)
		}
		step[0] = 'X'
		if got := string(a.Checkpoint()); got != "step 1" {
			t.Errorf("the checkpoint is %q", got)
		}
		most := make([]byte, oncekeeper.MaxCheckpointBytes+1)
		if err := a.SaveCheckpoint(ctx, most); !errors.Is(err, oncekeeper.ErrInvalidRequest) || w.seen("Renew") != 1 {
			t.Errorf("a checkpoint over the limit gives %v", err)
		}
		return 0, errors.New("crash")
	})
	if err := first.SaveCheckpoint(t.Context(), nil); err == nil || w.seen("Renew") != 1 {
		t.Errorf("a checkpoint after the attempt gives %v", err)
	}
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		if got := string(a.Checkpoint()); got != "step 1" || !a.Takeover() {
			t.Errorf("the next attempt has checkpoint %q, takeover %v", got, a.Takeover())
		}
		if err := a.SaveCheckpoint(ctx, nil); err != nil {
			t.Error(err)
		}
		if rec := w.record(key); len(rec.Checkpoint) != 0 {
			t.Errorf("an empty checkpoint leaves %q", rec.Checkpoint)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestACheckpointThatIsFencedEndsTheFunction(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		w.apply(lifecycle.Delete{Key: key, Etag: w.record(key).Etag(), Force: true})
		if err := a.SaveCheckpoint(t.Context(), []byte("x")); !errors.Is(err, oncekeeper.ErrFenced) {
			t.Errorf("SaveCheckpoint = %v, want ErrFenced", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrLeaseLost) || !errors.Is(cause, oncekeeper.ErrFenced) {
			t.Errorf("the function's context has cause %v", cause)
		}
		return 1, nil
	})
	if !errors.Is(err, oncekeeper.ErrFenced) {
		t.Errorf("Do = %v, want ErrFenced", err)
	}
}

func TestAResourceThatDoesNotFitIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) (int, error) {
		for _, s := range []string{strings.Repeat("x", oncekeeper.MaxResourceBytes+1), "\xff"} {
			if err := a.SetResource(s); !errors.Is(err, oncekeeper.ErrInvalidRequest) {
				t.Errorf("SetResource of %d bytes = %v", len(s), err)
			}
		}
		return 1, a.SetResource(strings.Repeat("x", oncekeeper.MaxResourceBytes))
	})
	if err != nil || len(w.record(key).Response.Resource) != oncekeeper.MaxResourceBytes {
		t.Errorf("Do = %v", err)
	}
}

// The first is tried again; the second, saved meanwhile, must not be replaced.
func TestACheckpointThatIsRetriedNeverReplacesALaterOne(t *testing.T) {
	w := newWorld(t)
	var renewals atomic.Int32
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Renew" && renewals.Add(1) == 1 {
			return errCut
		}
		return call(ctx)
	}
	_, err := client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) (int, error) {
		first := background(func() error { return a.SaveCheckpoint(ctx, []byte("first")) })
		w.clock.await(t, 50*time.Millisecond, 100*time.Millisecond)
		second := background(func() error { return a.SaveCheckpoint(ctx, []byte("second")) })
		for range 1000 { // let one that does not wait go ahead
			runtime.Gosched()
		}
		w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
		if err := errors.Join(recv(t, first, "the first"), recv(t, second, "the second")); err != nil {
			t.Error(err)
		}
		if kept, told := w.record(key).Checkpoint, a.Checkpoint(); string(kept) != "second" || string(told) != "second" {
			t.Errorf("%q is kept and %q told, want the second of both", kept, told)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}
