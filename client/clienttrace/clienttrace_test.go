package clienttrace_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clienttrace"
)

func gives(value string) func(context.Context, *client.Attempt) (string, error) {
	return func(context.Context, *client.Attempt) (string, error) { return value, nil }
}

func failing(err error) func(context.Context, *client.Attempt) (string, error) {
	return func(context.Context, *client.Attempt) (string, error) { return "", err }
}

// do is Do, which must end as told; nil: with no error.
func (w *traced) do(ctx context.Context, k oncekeeper.Key, fn func(context.Context, *client.Attempt) (string, error), want error, opts ...client.DoOption) {
	w.t.Helper()
	_, err := client.Do(ctx, w.keeper, k, fn, opts...)
	if _, some := want.(anyError); some && err != nil {
		return
	}
	if !errors.Is(err, want) {
		w.t.Fatalf("Do gives %v, want %v", err, want)
	}
}

func TestAReplayLinksToTheSpanOfTheAttemptThatMadeIt(t *testing.T) {
	w := begin(t)
	ctx, caller := w.provider.Tracer("test").Start(t.Context(), "caller")
	w.do(ctx, key("1"), func(ctx context.Context, _ *client.Attempt) (string, error) {
		_, work := w.provider.Tracer("test").Start(ctx, "work")
		work.End()
		return "done", nil
	}, nil)
	caller.End()
	ran := w.last()
	says(t, ran, map[string]any{
		"oncekeeper.operation": "orders.place", "oncekeeper.key_hash": key("1").Hash(), "oncekeeper.result": "granted", "oncekeeper.settlement": "complete",
		"oncekeeper.attempt": int64(1), "oncekeeper.fencing_token": w.Record(key("1")).Token,
		"oncekeeper.waited": nil, "oncekeeper.takeover": nil, "oncekeeper.tenant": nil, "oncekeeper.key_id": nil,
	})
	linked(t, ran)
	if parent := ran.Parent().SpanID(); parent != caller.SpanContext().SpanID() {
		t.Error("the span of a Run is not inside its caller's")
	}
	if work := w.spans.Ended()[0]; work.Name() != "work" || work.Parent().SpanID() != ran.SpanContext().SpanID() {
		t.Errorf("what the function does is not inside the span of its Run: %v", work)
	}

	w.do(t.Context(), key("1"), gives("another"), nil)
	replayed := w.last()
	says(t, replayed, map[string]any{
		"oncekeeper.result": "replayed", "oncekeeper.settlement": nil, "oncekeeper.attempt": int64(1), "oncekeeper.fencing_token": w.Record(key("1")).Token,
	})
	linked(t, replayed, to(ran, "outcome"))
	if replayed.SpanContext().TraceID() == ran.SpanContext().TraceID() {
		t.Error("both are in one trace, so the link shows nothing")
	}
}

func TestAWaitIsToldWithHowLongAndForWhom(t *testing.T) {
	w := begin(t)
	running, waited := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := client.Do(t.Context(), w.keeper, key("1"), func(context.Context, *client.Attempt) (string, error) {
			close(running)
			<-waited
			return "done", nil
		})
		first <- err
	}()
	<-running
	w.do(t.Context(), key("1"), gives(""), oncekeeper.ErrInProgress, client.WithWait(0))
	asked := w.last()

	waiter := w.onWait(func() {
		w.Clock.Advance(3 * time.Second)
		close(waited)
	})
	if got, err := client.Do(t.Context(), waiter, key("1"), gives("another")); err != nil || got != "done" {
		t.Fatalf("the waiter gets %q, %v", got, err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	says(t, asked, map[string]any{"oncekeeper.result": "in_progress", "oncekeeper.waited": nil})
	for _, s := range w.runs() {
		switch result := resultOf(s); result {
		case "replayed":
			says(t, s, map[string]any{"oncekeeper.waited": 3.0})
			linked(t, s, to(w.ran(), "outcome"))
		case "in_progress":
			linked(t, s, to(w.ran(), "running"))
		}
	}
	if n := len(w.runs()); n != 3 {
		t.Errorf("there are %d spans of Runs, want 3", n)
	}
}

func TestEveryWayThatARunEndsHasItsWord(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *traced)
		fn     func(context.Context, *client.Attempt) (string, error)
		opts   []client.DoOption
		err    error
		result string
		more   map[string]any
		status codes.Code
	}{
		"refused for good": {fn: failing(oncekeeper.Final(errOut)), err: errOut, result: "granted", more: map[string]any{"oncekeeper.settlement": "final"}},
		"not applied":      {fn: failing(oncekeeper.NotApplied(errOut)), err: errOut, result: "granted", more: map[string]any{"oncekeeper.settlement": "retryable"}},
		"unknown": {
			fn: failing(errOut), err: errOut, result: "granted", status: codes.Error, more: map[string]any{"oncekeeper.settlement": "unknown"},
		},
		"a replayed failure": {
			before: func(w *traced) { w.do(w.t.Context(), key("1"), failing(oncekeeper.Final(errOut)), errOut) },
			err:    anyError{}, result: "replayed",
		},
		"given up": {
			before: func(w *traced) {
				w.do(w.t.Context(), key("1"), failing(oncekeeper.NotApplied(errOut)), errOut, client.WithMaxAttempts(1))
			},
			err: anyError{}, result: "exhausted",
		},
		"held": {
			before: func(w *traced) { w.do(w.t.Context(), key("1"), failing(errOut), errOut, client.WithHold()) },
			err:    oncekeeper.ErrUnresolved, result: "unresolved",
		},
		"another request": {
			before: func(w *traced) { w.do(w.t.Context(), key("1"), gives("done"), nil) },
			opts:   []client.DoOption{client.WithFingerprint("", []byte("another"))},
			err:    oncekeeper.ErrFingerprintMismatch, result: "mismatch", status: codes.Error,
		},
		"invalid": {
			opts: []client.DoOption{client.WithRetention(-time.Second)}, err: oncekeeper.ErrInvalidRequest, result: "invalid", status: codes.Error,
		},
		"superseded": {
			fn: func(ctx context.Context, a *client.Attempt) (string, error) { return "late", supersede(ctx, a) },
			// The holder's own word came first, by another hand.
			err: oncekeeper.ErrAlreadySettled, result: "superseded", status: codes.Error, more: map[string]any{"oncekeeper.settlement": "complete"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			if c.before != nil {
				c.before(w)
			}
			if c.fn == nil {
				c.fn = gives("done")
			}
			w.do(context.WithValue(t.Context(), worldKey{}, w), key("1"), c.fn, c.err, c.opts...)
			s := w.last()
			says(t, s, map[string]any{"oncekeeper.result": c.result})
			says(t, s, c.more)
			if s.Status().Code != c.status {
				t.Errorf("its status is %v, want %v", s.Status(), c.status)
			}
		})
	}
}

func TestATakeoverLinksToTheAttemptThatWasAbandoned(t *testing.T) {
	w := begin(t)
	w.do(t.Context(), key("1"), failing(errOut), errOut)
	first := w.last()
	w.do(t.Context(), key("1"), gives("done"), nil)
	second := w.last()
	says(t, second, map[string]any{"oncekeeper.result": "takeover", "oncekeeper.takeover": true, "oncekeeper.attempt": int64(2)})
	linked(t, second, to(first, "previous"))
	w.do(t.Context(), key("1"), gives("another"), nil)
	linked(t, w.last(), to(second, "outcome"))
}

func TestAHeldKeyLinksToTheAttemptThatHoldsIt(t *testing.T) {
	w := begin(t)
	w.do(t.Context(), key("1"), failing(errOut), errOut, client.WithHold())
	first := w.last()
	w.do(t.Context(), key("1"), gives(""), oncekeeper.ErrUnresolved)
	linked(t, w.last(), to(first, "unresolved"))
}

func TestAFunctionThatPanicsLeavesASpanThatSaysSo(t *testing.T) {
	w := begin(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not go on")
			}
		}()
		_, _ = client.Do(t.Context(), w.keeper, key("1"), func(context.Context, *client.Attempt) (string, error) { panic("oops") })
	}()
	s := w.last()
	says(t, s, map[string]any{"oncekeeper.result": "granted", "oncekeeper.settlement": "unknown", "oncekeeper.attempt": int64(1)})
	if s.Status().Code != codes.Error {
		t.Errorf("its status is %v", s.Status())
	}
}

func TestACallerThatLeftIsNoError(t *testing.T) {
	w := begin(t)
	w.Down()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.do(ctx, key("1"), gives(""), context.Canceled)
	says(t, w.last(), map[string]any{"oncekeeper.result": "left"})
	if status := w.last().Status(); status.Code != codes.Unset {
		t.Errorf("its status is %v", status)
	}
}

func TestKeysAreToldWholeOnlyWhereThatIsAskedFor(t *testing.T) {
	w := begin(t)
	w.keeper = w.Client(client.WithTracer(clienttrace.New(w.provider, clienttrace.WithKeys())))
	w.do(t.Context(), key("1"), gives("done"), nil)
	says(t, w.last(), map[string]any{"oncekeeper.tenant": "acme", "oncekeeper.key_id": "1", "oncekeeper.key_hash": key("1").Hash()})
}

// A provider that makes no spans hands on its caller's trace, if there is one.
func TestWithoutSpansTheCallersTraceIsKept(t *testing.T) {
	w := begin(t)
	w.keeper = w.Client(client.WithTracer(clienttrace.New(noop.NewTracerProvider())))
	w.do(t.Context(), key("1"), gives("done"), nil)
	if got := w.Record(key("1")).TraceParent; got != "" {
		t.Errorf("a trace was kept, and there is none: %q", got)
	}
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	id, _ := trace.TraceIDFromHex(caller)
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}}))
	w.do(ctx, key("2"), gives("done"), nil)
	if got, want := w.Record(key("2")).TraceParent, "00-"+caller+"-0100000000000000-00"; got != want {
		t.Errorf("%q was kept, want %q", got, want)
	}
}
