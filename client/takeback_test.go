package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// awaitState waits until the key's record is stored in state.
func (w *world) awaitState(t *testing.T, k oncekeeper.Key, state oncekeeper.StoredState) {
	t.Helper()
	for {
		w.mu.Lock()
		rec, changed := w.records[k], w.changed
		w.mu.Unlock()
		if rec != nil && rec.State == state {
			return
		}
		select {
		case <-changed:
		case <-time.After(hang):
			t.Fatalf("the record is %+v, want it in state %d", rec, state)
		}
	}
}

// loseBegin has the answer of the nth call of method lost once the service has
// applied it, and calls hangUp then.
func (w *world) loseBegin(method string, n int, hangUp context.CancelFunc, err error) {
	var mu sync.Mutex
	w.between = func(ctx context.Context, called string, call func(context.Context) error) error {
		got := call(ctx)
		mu.Lock()
		defer mu.Unlock()
		if called != method {
			return got
		}
		if n--; n != 0 {
			return got
		}
		hangUp()
		return err
	}
}

var errLeft = status.FromContextError(context.Canceled).Err()

func TestAGrantInTheInstantThatAHeldCallerLeavesIsGivenBack(t *testing.T) {
	for _, hold := range []bool{false, true} {
		w := newWorld(t)
		token := other(t, w)
		ctx, hangUp := context.WithCancel(t.Context())
		w.loseBegin("Begin", 2, hangUp, errLeft)
		var opts []client.DoOption
		if hold {
			opts = append(opts, client.WithHold())
		}
		done := background(func() error {
			_, err := client.Do(ctx, w.keeper, key, neverRun(t), opts...)
			return err
		})
		w.awaitHeld(t, 1)
		if _, err := w.keeper.Fail(t.Context(), key, token, oncekeeper.SettledRetryable, nil); err != nil {
			t.Fatal(err)
		}
		if err := recv(t, done, "Do's return"); !errors.Is(err, context.Canceled) {
			t.Errorf("Do = %v, want context.Canceled", err)
		}
		w.awaitState(t, key, oncekeeper.StoredReleased)
		w.mu.Lock()
		last := w.begins[len(w.begins)-1]
		if last.GetWait() != nil || last.GetCallId() != w.begins[1].GetCallId() {
			t.Errorf("hold %v: it was asked for again as %v, want the same call, not to be held", hold, last)
		}
		w.mu.Unlock()
	}
}

func TestAHeldCallersPlaceIsFreeAgainWhenItsGrantIsGivenBack(t *testing.T) {
	w := newWorld(t, client.WithMaxWaits(1))
	for range 3 {
		token := other(t, w)
		ctx, hangUp := context.WithCancel(t.Context())
		w.loseBegin("Begin", 1, hangUp, errLeft)
		done := background(func() error {
			_, err := w.keeper.Begin(ctx, client.BeginRequest{Key: key, Wait: time.Minute})
			return err
		})
		w.awaitHeld(t, 1)
		if _, err := w.keeper.Fail(t.Context(), key, token, oncekeeper.SettledRetryable, nil); err != nil {
			t.Fatal(err)
		}
		if err := recv(t, done, "Begin's return"); !errors.Is(err, context.Canceled) {
			t.Errorf("Begin = %v, want context.Canceled", err)
		}
		w.awaitState(t, key, oncekeeper.StoredReleased)
		w.awaitNoneTaken(t)
	}
}

// awaitNoneTaken waits until no place of a held call is taken.
func (w *world) awaitNoneTaken(t *testing.T) {
	t.Helper()
	k := key
	k.ID = "free"
	w.between = nil
	for {
		answer, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: k, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		held := w.begins[len(w.begins)-1].GetWait() != nil
		delete(w.records, k)
		w.mu.Unlock()
		if answer.Grant == nil || t.Context().Err() != nil {
			t.Fatalf("Begin = %+v", answer)
		}
		if held {
			return
		}
	}
}

func TestAGrantWhoseAnswerIsLostForGoodIsGivenBack(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Canceled} {
		w := newWorld(t, client.WithRetryBudget(0, 0))
		w.loseBegin("Begin", 1, func() {}, status.Error(code, "stream terminated by RST_STREAM"))
		if _, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key, Hold: true}); status.Code(err) != code {
			t.Errorf("Begin = %v, want %v", err, code)
		}
		w.awaitState(t, key, oncekeeper.StoredReleased)
	}
}

// To ask again would make the attempt that never was.
func TestACallThatNeverArrivedMakesNoAttempt(t *testing.T) {
	w := newWorld(t, client.WithRetryBudget(0, 0))
	looked := make(chan struct{})
	w.gate = func(_ context.Context, method string) {
		if method == "Get" {
			close(looked)
		}
	}
	n := 0
	w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
		if n++; n == 1 {
			return errCut
		}
		return call(ctx)
	}
	if _, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key}); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Begin = %v, want ErrUnavailable", err)
	}
	recv(t, looked, "the look at the key")
	if w.seen("Begin") != 0 || w.record(key) != nil {
		t.Errorf("%d Begins, record %+v, want none", w.seen("Begin"), w.record(key))
	}
}

func TestWhatABatchWasGrantedWhoseCallerLeftIsGivenBack(t *testing.T) {
	w := newWorld(t)
	k2 := key
	k2.ID = "k-2"
	ctx, hangUp := context.WithCancel(t.Context())
	w.loseBegin("BatchBegin", 1, hangUp, errLeft)
	_, err := w.keeper.BatchBegin(ctx, []client.BeginRequest{{Key: key}, {Key: k2, Hold: true}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("BatchBegin = %v, want context.Canceled", err)
	}
	w.awaitState(t, key, oncekeeper.StoredReleased)
	w.awaitState(t, k2, oncekeeper.StoredReleased)
}

// A caller that has left may use the fingerprint's memory for something else. Were it
// asked with that, the key would be another request's.
func TestWhatIsAskedForAgainIsWhatTheCallerAskedThoughItLeft(t *testing.T) {
	for method, begin := range map[string]func(*client.Client, context.Context, client.BeginRequest) error{
		"Begin": func(c *client.Client, ctx context.Context, req client.BeginRequest) error {
			_, err := c.Begin(ctx, req)
			return err
		},
		"BatchBegin": func(c *client.Client, ctx context.Context, req client.BeginRequest) error {
			_, err := c.BatchBegin(ctx, []client.BeginRequest{req})
			return err
		},
	} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			ctx, hangUp := context.WithCancel(t.Context())
			changed := make(chan struct{})
			var first sync.Once
			w.between = func(ctx context.Context, called string, call func(context.Context) error) error {
				lost := false
				first.Do(func() { lost = true })
				if lost { // before it arrived
					hangUp()
					return errLeft
				}
				if called == method {
					<-changed
				}
				return call(ctx)
			}
			fingerprint := []byte("pay 5")
			if err := begin(w.keeper, ctx, client.BeginRequest{Key: key, Fingerprint: fingerprint}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want context.Canceled", method, err)
			}
			copy(fingerprint, "oops!")
			close(changed)
			w.awaitState(t, key, oncekeeper.StoredReleased)
			if got := string(w.record(key).Fingerprint); got != "pay 5" {
				t.Errorf("the key is that of %q, want what its caller asked", got)
			}
		})
	}
}

func TestWhatABatchWasGrantedWhoseAnswerIsLostForGoodIsGivenBack(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal} {
		w := newWorld(t, client.WithRetryBudget(0, 0))
		w.loseBegin("BatchBegin", 1, func() {}, status.Error(code, "stream terminated by RST_STREAM"))
		results := client.DoBatch(t.Context(), w.keeper, items(1, 2), neverBatch(t), client.WithHold())
		mustGive(t, results, code, code)
		w.awaitState(t, keyNumber(1), oncekeeper.StoredReleased)
		w.awaitState(t, keyNumber(2), oncekeeper.StoredReleased)
		w.mustBeNotRun(1, 2)
	}
}
