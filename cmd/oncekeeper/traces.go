package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekeeper/oncekeeper/clock"
)

const (
	// lastTraces is how long the spans that are left may take to be sent at the end.
	lastTraces = 5 * time.Second
	// tracesTroubleEvery is between two lines about spans that could not be sent.
	tracesTroubleEvery = time.Minute
)

// traceFlags say where spans go. What else there is to say of it (headers,
// certificates, names, queues) the standard's own OTEL_ variables say.
type traceFlags struct {
	Endpoint string  `env:"ONCEKEEPER_TRACE_ENDPOINT" group:"Traces and calls in the log" placeholder:"URL" help:"Send spans there, by OTLP over gRPC: http://127.0.0.1:4317, or https. Not set: none are made, unless OTEL_TRACES_EXPORTER is otlp."`
	Sample   float64 `env:"ONCEKEEPER_TRACE_SAMPLE" group:"Traces and calls in the log" default:"0.01" help:"Which share of the calls is traced that come with no trace, 0 to 1. One that comes with a trace is traced as its caller decided."`
}

// check refuses what is no endpoint and no share.
func (f *traceFlags) check() error {
	if f.Endpoint != "" {
		u, err := url.Parse(f.Endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("--trace-endpoint %q is no URL of a collector: give http://host:4317, or https://host:4317", f.Endpoint)
		}
	}
	return checkShare("--trace-sample", f.Sample)
}

func checkShare(flag string, share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("%s %v is no share: give 0 to 1", flag, share)
	}
	return nil
}

// off: no spans are made.
func (f *traceFlags) off() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return true
	}
	return f.Endpoint == "" && os.Getenv("OTEL_TRACES_EXPORTER") != "otlp"
}

// start gives what makes spans, and end, which sends what is left of them. The
// provider is nil where there are to be none. Nothing that goes wrong on the way is
// told to a caller, or waited for by one: spans queue up to a bound, and what does
// not fit is left out.
func (f *traceFlags) start(ctx context.Context, log *slog.Logger) (provider trace.TracerProvider, end func(), err error) {
	if f.off() {
		return nil, func() {}, nil
	}
	var to []otlptracegrpc.Option
	if f.Endpoint != "" {
		to = append(to, otlptracegrpc.WithEndpointURL(f.Endpoint))
	} else if protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "grpc"); protocol != "grpc" {
		return nil, nil, fmt.Errorf("traces are sent by gRPC alone, and the environment asks for %q: give --trace-endpoint with the collector's port for gRPC (4317), or set OTEL_TRACES_EXPORTER=none", protocol)
	}
	exporter, err := otlptracegrpc.New(ctx, to...)
	if err != nil {
		return nil, nil, fmt.Errorf("sending traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "oncekeeper"), attribute.String("service.version", version())),
		resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("traces: what OTEL_RESOURCE_ATTRIBUTES says of this service: %w", errors.Join(err, exporter.Shutdown(ctx)))
	}
	told := &toldExporter{SpanExporter: exporter, clock: clock.System, log: log}
	// What the SDK meets beside, a collector that takes some spans only, say, would go to
	// the standard error, each time.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { told.trouble(ctx, 0, err) }))
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithBatcher(told)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		opts = append(opts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(f.Sample))))
	}
	spans := sdktrace.NewTracerProvider(opts...)
	log.InfoContext(ctx, "traces are sent", "endpoint", cmp.Or(f.Endpoint, "by OTEL_EXPORTER_OTLP_ENDPOINT"), "sample", f.Sample)
	return spans, func() { endTraces(ctx, spans, lastTraces, log) }, nil
}

// endTraces sends what is left within limit, and gives up on it then.
func endTraces(ctx context.Context, spans *sdktrace.TracerProvider, limit time.Duration, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- spans.Shutdown(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		log.WarnContext(ctx, "the last traces were not sent", "within", limit.String(), "error", err)
	}
}

// toldExporter logs once in a while that spans could not be sent.
type toldExporter struct {
	sdktrace.SpanExporter
	clock clock.Clock
	log   *slog.Logger

	mu   sync.Mutex
	lost int
	next time.Duration
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *toldExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	e.trouble(ctx, len(spans), err)
	return nil // it is told
}

// trouble tells of so many spans that may be lost.
func (e *toldExporter) trouble(ctx context.Context, lost int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += lost
	if now := e.clock.Monotonic(); now >= e.next {
		e.next = now + tracesTroubleEvery
		e.log.WarnContext(ctx, "traces cannot be sent, and are left out: calls are answered all the same", "spans", e.lost, "error", err)
	}
}
