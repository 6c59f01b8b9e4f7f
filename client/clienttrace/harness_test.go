package clienttrace_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clienttrace"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// traced is a service, and a client whose spans are looked at.
type traced struct {
	*oncetest.Server
	t        *testing.T
	keeper   *client.Client
	provider *sdktrace.TracerProvider
	spans    *tracetest.SpanRecorder
}

func begin(t *testing.T, opts ...client.Option) *traced {
	t.Helper()
	w := &traced{Server: oncetest.Start(t), t: t, spans: tracetest.NewSpanRecorder()}
	w.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
	w.keeper = w.Client(append(opts, client.WithTracer(clienttrace.New(w.provider)))...)
	return w
}

// key of the tests' operations.
func key(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "acme", Operation: "orders.place", ID: id}
}

// runs gives the spans of the Runs that ended, in their order.
func (w *traced) runs() []sdktrace.ReadOnlySpan {
	var runs []sdktrace.ReadOnlySpan
	for _, s := range w.spans.Ended() {
		if s.Name() == clienttrace.SpanName {
			runs = append(runs, s)
		}
	}
	return runs
}

// ran gives the span of the Run that was granted first.
func (w *traced) ran() sdktrace.ReadOnlySpan {
	w.t.Helper()
	for _, s := range w.runs() {
		if resultOf(s) == "granted" {
			return s
		}
	}
	w.t.Fatal("no span says that its Run was granted")
	return nil
}

func resultOf(s sdktrace.ReadOnlySpan) string {
	all := attribute.NewSet(s.Attributes()...)
	result, _ := all.Value("oncekeeper.result")
	return result.AsString()
}

// last gives the span of the Run that ended last.
func (w *traced) last() sdktrace.ReadOnlySpan {
	w.t.Helper()
	runs := w.runs()
	if len(runs) == 0 {
		w.t.Fatal("no Run left a span")
	}
	return runs[len(runs)-1]
}

// says fails the test unless the span has these attributes; one of nil it must lack.
func says(t *testing.T, s sdktrace.ReadOnlySpan, want map[string]any) {
	t.Helper()
	got := map[string]any{}
	for _, a := range s.Attributes() {
		got[string(a.Key)] = a.Value.AsInterface()
		if s.Name() == clienttrace.SpanName && !described()[string(a.Key)] {
			t.Errorf("%s is not described", a.Key)
		}
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v, of %v", name, got[name], value, got)
		}
	}
}

// linked fails the test unless the span links to these attempts, and to no other.
func linked(t *testing.T, s sdktrace.ReadOnlySpan, want ...link) {
	t.Helper()
	var got []link
	for _, l := range s.Links() {
		about := attribute.NewSet(l.Attributes...)
		as, _ := about.Value("oncekeeper.link")
		got = append(got, link{to: l.SpanContext.SpanID(), trace: l.SpanContext.TraceID(), as: as.AsString()})
	}
	if len(got) != len(want) {
		t.Fatalf("it links to %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("it links to %v, want %v", got, want)
		}
	}
}

type link struct {
	to    trace.SpanID
	trace trace.TraceID
	as    string
}

func to(s sdktrace.ReadOnlySpan, as string) link {
	return link{to: s.SpanContext().SpanID(), trace: s.SpanContext().TraceID(), as: as}
}
