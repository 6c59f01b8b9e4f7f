package clienttrace_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clienttrace"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// hang is how long a test waits for what must come.
const hang = time.Minute

// onBothStores gives a test what opens a store again and again on the same records.
func onBothStores(t *testing.T, test func(t *testing.T, open func() storage.Store)) {
	t.Run("pebble", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func() storage.Store {
			store, err := pebble.Open(pebble.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			return store
		})
	})
	t.Run("postgres", func(t *testing.T) {
		address := pgtest.Database(t)
		test(t, func() storage.Store {
			store, err := postgres.Open(t.Context(), postgres.Config{DSN: address})
			if err != nil {
				t.Fatal(err)
			}
			return store
		})
	})
}

// hung gives a context that ends when a test has waited too long.
func hung(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), hang)
	t.Cleanup(cancel)
	return ctx
}

// served serves a store, traced, until stop, and gives a connection that carries
// traces to it.
func (w *traced) served(t *testing.T, store storage.Store) (conn *grpc.ClientConn, stop func()) {
	t.Helper()
	srv, err := server.New(server.Config{Store: store, TracerProvider: w.provider})
	if err != nil {
		t.Fatal(err)
	}
	lis, done := bufconn.Listen(1<<20), make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	conn, err = grpc.NewClient("passthrough:test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(w.provider), otelgrpc.WithPropagators(propagation.TraceContext{}))),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = conn.Close()
			if err := srv.Shutdown(hung(t)); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return conn, stop
}

// guarded is the test's service behind a guard that asks over conn; before is called
// in its handler.
func (w *traced) guarded(t *testing.T, conn *grpc.ClientConn, before func()) func() error {
	t.Helper()
	keeper := client.New(conn, client.WithTracer(clienttrace.New(w.provider)))
	guard, err := grpcguard.New(keeper, grpcguard.Config{
		Tenant:  func(context.Context) (string, error) { return "acme", nil },
		Methods: map[string]grpcguard.Method{"testservice.v1.ChargeService/Refund": {}}, Wait: hang,
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		before()
		return handler(ctx, req)
	}
	of := serve(t, []grpc.ServerOption{grpc.ChainUnaryInterceptor(guard.Unary(), handler)})
	return func() error {
		ctx := metadata.AppendToOutgoingContext(hung(t), "idempotency-key", "1")
		_, err := of.Refund(ctx, &testservicev1.RefundRequest{})
		return err
	}
}

// inside gives the spans of that name that are in the trace of s.
func (w *traced) inside(s sdktrace.ReadOnlySpan, name string) []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, other := range w.spans.Ended() {
		if other.Name() == name && other.SpanContext().TraceID() == s.SpanContext().TraceID() {
			found = append(found, other)
		}
	}
	return found
}

const beginSpan = "oncekeeper.v1.IdempotencyService/Begin"

func TestAReplayLinksToItsAttemptAlsoAcrossARestartOfTheService(t *testing.T) {
	onBothStores(t, func(t *testing.T, open func() storage.Store) {
		w := begin(t)
		conn, stop := w.served(t, open())
		if err := w.guarded(t, conn, func() {})(); err != nil {
			t.Fatal(err)
		}
		stop()
		ran := w.last()
		says(t, ran, map[string]any{"oncekeeper.result": "granted", "oncekeeper.operation": "testservice.v1.ChargeService/Refund"})

		conn, stop = w.served(t, open())
		if err := w.guarded(t, conn, func() { t.Error("it ran again") })(); err != nil {
			t.Fatal(err)
		}
		stop()
		replayed := w.last()
		says(t, replayed, map[string]any{"oncekeeper.result": "replayed"})
		linked(t, replayed, to(ran, "outcome"))

		// What the service does for a call is in the call's own trace.
		for s, result := range map[sdktrace.ReadOnlySpan]string{ran: "granted", replayed: "replayed"} {
			answered := 0
			for _, call := range w.inside(s, beginSpan) {
				if call.SpanKind().String() != "server" {
					continue
				}
				answered++
				says(t, call, map[string]any{
					"oncekeeper.result": result, "oncekeeper.operation": "testservice.v1.ChargeService/Refund", "oncekeeper.tenant": nil, "oncekeeper.key_id": nil,
				})
				if store := w.inside(s, "oncekeeper.store.apply"); len(store) == 0 || store[0].Parent().SpanID() != call.SpanContext().SpanID() {
					t.Errorf("the store's part of a call is not inside its span: %v", store)
				}
			}
			if answered != 1 {
				t.Errorf("%d spans of the service are in the trace of a call that was %s, want 1", answered, result)
			}
		}
	})
}

func TestAWaitIsSeenOnBothSides(t *testing.T) {
	onBothStores(t, func(t *testing.T, open func() storage.Store) {
		w := begin(t)
		asleep := &started{name: "oncekeeper.wait", came: make(chan struct{}, 10)}
		w.provider.RegisterSpanProcessor(asleep)
		conn, stop := w.served(t, open())
		running := make(chan struct{})
		call := w.guarded(t, conn, func() {
			close(running)
			select {
			case <-asleep.came: // the second caller sleeps in the server
			case <-time.After(hang):
				t.Error("nobody waits")
			}
		})
		first := make(chan error, 1)
		go func() { first <- call() }()
		<-running
		if err := call(); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		stop()
		for _, s := range w.runs() {
			if resultOf(s) != "replayed" {
				continue
			}
			linked(t, s, to(w.ran(), "outcome"))
			woken := w.inside(s, "oncekeeper.wait")
			if len(woken) == 0 {
				t.Fatal("the service's wait is not in the trace of who waited")
			}
			for _, a := range s.Attributes() {
				if a.Key == "oncekeeper.waited" {
					return
				}
			}
			t.Errorf("who waited does not say so: %v", s.Attributes())
			return
		}
		t.Error("nobody was given a replay")
	})
}

// started tells when spans of a name begin.
type started struct {
	name string
	came chan struct{}
}

func (s *started) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	if span.Name() == s.name {
		select {
		case s.came <- struct{}{}:
		default:
		}
	}
}

func (*started) OnEnd(sdktrace.ReadOnlySpan)      {}
func (*started) Shutdown(context.Context) error   { return nil }
func (*started) ForceFlush(context.Context) error { return nil }
