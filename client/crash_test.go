package client_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

func explode(context.Context, *client.Attempt) (int, error) { panic("the reactor") }

func TestAPanicSettlesUnknownAndGoesOnWithItsValueAndStack(t *testing.T) {
	w := newWorld(t)
	func() {
		defer func() {
			if got := recover(); got != "the reactor" {
				t.Errorf("recovered %v, want the function's own value", got)
			}
			if stack := string(debug.Stack()); !strings.Contains(stack, "client_test.explode") {
				t.Errorf("the stack has lost the function:\n%s", stack)
			}
		}()
		_, _ = client.Do(t.Context(), w.keeper, key, explode)
		t.Error("Do returned")
	}()
	wantUnknown(t, w)
}

func TestGoexitSettlesUnknownAndGoesOn(t *testing.T) {
	w := newWorld(t)
	done := make(chan struct{})
	returned := false
	go func() {
		defer close(done)
		_, _ = client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) {
			runtime.Goexit()
			return 1, nil
		})
		returned = true
	}()
	recv(t, done, "the goroutine's end")
	if returned {
		t.Error("Do returned")
	}
	wantUnknown(t, w)
}

// wantUnknown: the outcome is unknown at once, with no lease to wait for, and the
// next attempt is a takeover.
func wantUnknown(t *testing.T, w *world) {
	t.Helper()
	rec := w.record(key)
	if rec == nil || rec.State != oncekeeper.StoredPending || rec.Last != oncekeeper.SettledUnknown {
		t.Fatalf("the record is %+v, want it settled as unknown", rec)
	}
	_, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) (int, error) {
		if !a.Takeover() || a.Number() != 2 {
			t.Errorf("the next attempt is number %d, takeover %v", a.Number(), a.Takeover())
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}
