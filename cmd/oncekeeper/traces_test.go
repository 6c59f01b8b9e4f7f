package main

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// collector is where OTLP goes.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	came chan *tracev1.ResourceSpans
}

func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	for _, spans := range req.GetResourceSpans() {
		c.came <- spans
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// listening gives a port of this machine that the test has.
func listening(t *testing.T) net.Listener {
	t.Helper()
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	return lis
}

func collecting(t *testing.T) (c *collector, endpoint string) {
	t.Helper()
	lis, srv := listening(t), grpc.NewServer()
	c = &collector{came: make(chan *tracev1.ResourceSpans, 1000)}
	collectorv1.RegisterTraceServiceServer(srv, c)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	return c, "http://" + lis.Addr().String()
}

// await gives the first span of that name that comes, and what it is said to be of.
func (c *collector) await(t *testing.T, name string) (span *tracev1.Span, of map[string]string) {
	t.Helper()
	for {
		select {
		case spans := <-c.came:
			of = map[string]string{}
			for _, a := range spans.GetResource().GetAttributes() {
				of[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, scope := range spans.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					if s.GetName() == name {
						return s, of
					}
				}
			}
		case <-time.After(time.Minute):
			t.Fatalf("no span %s comes", name)
		}
	}
}

const beginSpan = "oncekeeper.v1.IdempotencyService/Begin"

func beginOne(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	if _, err := dialled(t, address).Begin(ctx, &pb.BeginRequest{Key: &pb.Key{Tenant: "demo", Operation: "pay", Id: "secret-id"}}); err != nil {
		t.Fatal(err)
	}
}

func TestSpansAreSentByOTLP(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, endpoint string) []string{
		"by a flag": func(_ *testing.T, endpoint string) []string {
			return []string{"--trace-endpoint", endpoint, "--trace-sample", "1"}
		},
		"by the standard's variables": func(t *testing.T, endpoint string) []string {
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
			t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, endpoint := collecting(t)
			address, log, stop := servingUntil(t, append(set(t, endpoint), "--store", "memory:")...)
			beginOne(t.Context(), t, address)
			stop() // what is queued is sent at the end
			span, of := c.await(t, beginSpan)
			if of["service.name"] != "oncekeeper" || strings.Contains(span.String(), "secret-id") {
				t.Errorf("the span is %v, of %v", span, of)
			}
			if strings.HasPrefix(name, "by the") && of["deployment.environment"] != "test" {
				t.Errorf("it is of %v, and OTEL_RESOURCE_ATTRIBUTES says more", of)
			}
			log.await(t, "traces are sent")
		})
	}
}

func TestACallThatComesWithATraceIsTracedAsItsCallerDecided(t *testing.T) {
	c, endpoint := collecting(t)
	address, _, stop := servingUntil(t, "--store", "memory:", "--trace-endpoint", endpoint, "--trace-sample", "0")
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	beginOne(t.Context(), t, address)
	beginOne(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-00f067aa0ba902b7-01"), t, address)
	stop()
	span, _ := c.await(t, beginSpan)
	if got := hex.EncodeToString(span.GetTraceId()); got != trace {
		t.Errorf("the first span is of the trace %s, want the caller's: one that came with none was to have none", got)
	}
}

func TestWhereNobodyTakesSpansCallsAreAnsweredAndTheEndComes(t *testing.T) {
	gone := listening(t)
	_ = gone.Close()
	silent := listening(t) // takes connections, and says nothing
	for name, endpoint := range map[string]string{"nobody is there": gone.Addr().String(), "nobody answers": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
			address, log, stop := servingUntil(t, "--store", "memory:", "--trace-endpoint", "http://"+endpoint, "--trace-sample", "1")
			for range 20 {
				beginOne(t.Context(), t, address)
			}
			log.await(t, "traces cannot be sent")
			beginOne(t.Context(), t, address)
			stop()
			log.await(t, "stopped")
		})
	}
}

// stuck is an exporter that never comes back.
type stuck struct{ tracetest.NoopExporter }

func (stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { select {} }

func TestTheEndWaitsForNoExporterThatHangs(t *testing.T) {
	log := &lines{grown: make(chan struct{}, 1)}
	spans := sdktrace.NewTracerProvider(sdktrace.WithBatcher(&stuck{}))
	_, span := spans.Tracer("test").Start(t.Context(), "one")
	span.End()
	endTraces(t.Context(), spans, time.Millisecond, slog.New(slog.NewJSONHandler(log, nil)))
	log.await(t, "the last traces were not sent")
}

func TestTroubleWithTracesIsToldOnceInAWhile(t *testing.T) {
	log := &lines{grown: make(chan struct{}, 1)}
	clk := clock.NewManual(time.Unix(0, 0))
	broken, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpointURL("http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broken.Shutdown(context.WithoutCancel(t.Context())) })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e := &toldExporter{SpanExporter: broken, clock: clk, log: slog.New(slog.NewJSONHandler(log, nil))}
	spans := tracetest.SpanStubs{{Name: "one"}, {Name: "two"}}.Snapshots()
	clk.Advance(time.Second)
	for range 10 {
		if err := e.ExportSpans(ended, spans); err != nil {
			t.Errorf("it is told twice, by %v", err)
		}
	}
	if n := strings.Count(log.String(), "cannot be sent"); n != 1 {
		t.Errorf("%d lines in one minute, want 1:\n%s", n, log)
	}
	clk.Advance(tracesTroubleEvery)
	_ = e.ExportSpans(ended, spans)
	if !strings.Contains(log.String(), `"spans":22`) {
		t.Errorf("the next line does not say how many are lost:\n%s", log)
	}
}

func TestNothingIsTracedOrLoggedUnlessItIsAskedFor(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	address, log, stop := servingUntil(t, "--store", "memory:")
	beginOne(t.Context(), t, address)
	stop()
	log.await(t, "stopped")
	if text := log.String(); strings.Contains(text, "traces") || strings.Contains(text, `"msg":"call"`) {
		t.Errorf("the log is\n%s", text)
	}
}

func TestTheAccessLogIsAskedForByFlags(t *testing.T) {
	address, log := serving(t, "--store", "memory:", "--access-log", "1", "--access-log-keys")
	beginOne(t.Context(), t, address)
	line := log.await(t, "call")
	if line["method"] != "Begin" || line["result"] != "granted" || line["tenant"] != "demo" || line["key_id"] != "secret-id" || line["peer"] == nil {
		t.Errorf("the line is %v", line)
	}
}

func TestWhatIsNoEndpointAndNoShareIsRefusedAtTheCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"--trace-endpoint", "127.0.0.1:4317"}, {"--trace-endpoint", "unix:///run/otel"}, {"--trace-endpoint", "http://"},
		{"--trace-sample", "1.5"}, {"--trace-sample", "NaN"}, {"--access-log", "-1"}, {"--access-log-refusals", "2"},
	} {
		if code, _, stderr := command(t, append([]string{"serve", "--store", "memory:"}, args...)...); code != exitUsage || !strings.Contains(stderr, args[0]) {
			t.Errorf("serve %v exits with %d: %s", args, code, stderr)
		}
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	if code, _, stderr := command(t, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--http", "off"); code != exitFailed || !strings.Contains(stderr, "--trace-endpoint") {
		t.Errorf("traces by another protocol: it exits with %d: %s", code, stderr)
	}
}
