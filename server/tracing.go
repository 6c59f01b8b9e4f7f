package server

import (
	"context"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage"
)

// spans makes the server's own spans, each inside that of a call: of what is done for
// no traced call there is none.
type spans struct {
	provider trace.TracerProvider // nil: none
	tracer   trace.Tracer
}

// scope names what makes the server's own spans.
const scope = "github.com/oncekeeper/oncekeeper/server"

// The names of the server's own spans.
const (
	waitSpan  = "oncekeeper.wait"
	storeSpan = "oncekeeper.store." // and the method
)

func newSpans(provider trace.TracerProvider) spans {
	if provider == nil {
		return spans{tracer: noop.NewTracerProvider().Tracer(scope)}
	}
	return spans{provider: provider, tracer: provider.Tracer(scope)}
}

// option has every call of the service's own methods be a span, in the trace that it
// came with. A stranger's method would be a name of its caller's making.
func (s spans) option(ours func(fullMethod string) bool) grpc.ServerOption {
	if s.provider == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(s.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()), // Prometheus has the numbers
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return ours(info.FullMethodName) }),
	))
}

// storeCall begins the span of a store's call about n keys, inside that of the call,
// where that is recorded.
func (s spans) storeCall(ctx context.Context, call, n int) (context.Context, trace.Span) {
	if s.provider == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, noop.Span{}
	}
	return s.tracer.Start(ctx, storeSpan+storeCalls[call], trace.WithAttributes(attribute.Int("oncekeeper.keys", n)))
}

// endCall ends the span of a store's call, with the fault that it met. A fault's own
// words may be a driver's, and stay in the log.
func endCall(span trace.Span, err error) {
	if kind, is := faultOf(err); is {
		span.SetStatus(codes.Error, storeFaults[kind])
	}
	span.End()
}

// worst gives an error of results that is a fault; nil where none is.
func worst(results []storage.Result) error {
	for _, res := range results {
		if _, is := faultOf(res.Err); is {
			return res.Err
		}
	}
	return nil
}

// asleep begins the span of a wait; what it gives ends it with the answer, nil where
// the waiter asks the store again.
func (s spans) asleep(ctx context.Context) (woken func(answer *storage.Result)) {
	if s.provider == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return func(*storage.Result) {}
	}
	_, span := s.tracer.Start(ctx, waitSpan)
	return func(answer *storage.Result) {
		by := "turn"
		switch {
		case answer != nil && answer.Err != nil:
			by = "end"
		case answer != nil:
			by = "answer"
		}
		span.SetAttributes(attribute.String("oncekeeper.woken_by", by))
		span.End()
	}
}

// tell has the span of a call say what it was about and what it was answered. Keys
// may be personal, so it has their hash.
func (s *seenCall) tell(span trace.Span) {
	about := []attribute.KeyValue{attribute.String("oncekeeper.result", s.results())}
	if s.items > 1 {
		about = append(about, attribute.Int("oncekeeper.items", s.items))
	}
	if key := s.key; key != (oncekeeper.Key{}) {
		about = append(about, attribute.String("oncekeeper.operation", key.Operation), attribute.String("oncekeeper.key_hash", key.Hash()))
	}
	if s.principal != "" {
		about = append(about, attribute.String("oncekeeper.principal", s.principal))
	}
	span.SetAttributes(about...)
}
