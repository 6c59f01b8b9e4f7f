// Package clienttrace tells what a client, its guards and its inboxes do as spans of
// OpenTelemetry:
//
//	keeper := client.New(conn, client.WithTracer(clienttrace.New(otel.GetTracerProvider())))
//
// Each client.Run, and so each Do, each call of a guard and each try of an inbox, is
// one span, SpanName, inside that of the call that it guards; what the function does
// is inside it. It says whether the function was run or an earlier answer replayed,
// and how long another attempt was waited for; and it links to the attempts of the
// key that it met, in whatever trace they were. The attributes are listed with Attributes.
//
// It knows OpenTelemetry's API alone: who makes spans of it, and where they go, is the
// provider's affair. Whoever does not import it has no OpenTelemetry of the client's.
// It does not carry the trace to the service: the connection's own stats handler does
// (otelgrpc.NewClientHandler), where the service's spans are wanted too.
package clienttrace

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

const (
	// Scope names what makes the spans.
	Scope = "github.com/oncekeeper/oncekeeper/client"
	// SpanName is every span's: a key's parts would make names without end.
	SpanName = "oncekeeper.run"
)

// Option changes a tracer.
type Option func(*tracer)

// WithKeys has spans tell the tenant and the id of a key, which may be personal, and
// not only its hash.
func WithKeys() Option { return func(t *tracer) { t.keys = true } }

// New gives a tracer by provider, for client.WithTracer.
func New(provider trace.TracerProvider, opts ...Option) client.Tracer {
	t := &tracer{tracer: provider.Tracer(Scope)}
	for _, opt := range opts {
		opt(t)
	}
	return t
}

type tracer struct {
	tracer trace.Tracer
	keys   bool
}

// Start implements client.Tracer.
func (t *tracer) Start(ctx context.Context, key oncekeeper.Key) (context.Context, client.Span) {
	about := []attribute.KeyValue{attribute.String(operationName, key.Operation), attribute.String(keyHashName, key.Hash())}
	if t.keys {
		about = append(about, attribute.String(tenantName, key.Tenant), attribute.String(keyIDName, key.ID))
	}
	ctx, s := t.tracer.Start(ctx, SpanName, trace.WithAttributes(about...))
	return ctx, span{ctx: ctx, span: s}
}

type span struct {
	ctx  context.Context
	span trace.Span
}

// header is where W3C's Trace Context has it.
const header = "traceparent"

// TraceParent implements client.Span.
func (s span) TraceParent() string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, carrier)
	return carrier[header]
}

// End implements client.Span.
func (s span) End(seen client.Seen) {
	defer s.span.End()
	if !s.span.IsRecording() {
		return
	}
	for _, met := range seen.Met {
		if to := spanOf(met.TraceParent); to.IsValid() {
			s.span.AddLink(trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{attribute.String(linkName, string(met.As))}})
		}
	}
	all := told{Seen: seen, left: s.ctx.Err() != nil && errors.Is(seen.Err, s.ctx.Err())}
	s.span.SetAttributes(attributes(all)...)
	if code, why := statusOf(all); why != "" {
		s.span.SetStatus(code, why)
	}
}

// spanOf reads a traceparent; what is none is no span.
func spanOf(parent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: parent})
	return trace.SpanContextFromContext(ctx)
}
