package clienttrace_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

type service struct {
	testservicev1.UnimplementedChargeServiceServer
}

func (service) Refund(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
	return &testservicev1.RefundResponse{Name: "refunds/1"}, nil
}

func serve(t *testing.T, by []grpc.ServerOption, options ...grpc.DialOption) testservicev1.ChargeServiceClient {
	t.Helper()
	lis, srv := bufconn.Listen(1<<20), grpc.NewServer(by...)
	testservicev1.RegisterChargeServiceServer(srv, service{})
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:test", append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return testservicev1.NewChargeServiceClient(conn)
}

// twice has something guarded done two times, and looks at the spans of both.
func (w *traced) twice(t *testing.T, operation string, do func()) {
	t.Helper()
	before := len(w.runs())
	do()
	do()
	runs := w.runs()[before:]
	if len(runs) != 2 {
		t.Fatalf("it left %d spans, want 2", len(runs))
	}
	says(t, runs[0], map[string]any{"oncekeeper.operation": operation, "oncekeeper.result": "granted", "oncekeeper.settlement": "complete"})
	says(t, runs[1], map[string]any{"oncekeeper.operation": operation, "oncekeeper.result": "replayed"})
	linked(t, runs[1], to(runs[0], "outcome"))
}

func TestEveryGuardLeavesASpanForEachCallAndLinksAReplay(t *testing.T) {
	w := begin(t)
	config := grpcguard.Config{
		Tenant:  func(context.Context) (string, error) { return "acme", nil },
		Methods: map[string]grpcguard.Method{"testservice.v1.ChargeService/Refund": {}},
	}
	refund := func(of testservicev1.ChargeServiceClient, key string) func() {
		return func() {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", key)
			if res, err := of.Refund(ctx, &testservicev1.RefundRequest{}); err != nil || res.GetName() != "refunds/1" {
				t.Errorf("the call gives %v, %v", res, err)
			}
		}
	}
	t.Run("grpc", func(t *testing.T) {
		guard, err := grpcguard.New(w.keeper, config)
		if err != nil {
			t.Fatal(err)
		}
		w.twice(t, "testservice.v1.ChargeService/Refund", refund(serve(t, []grpc.ServerOption{grpc.UnaryInterceptor(guard.Unary())}), "in"))
	})
	t.Run("outgoing", func(t *testing.T) {
		guard, err := grpcguard.NewOutgoing(w.keeper, grpcguard.OutgoingConfig{Config: config})
		if err != nil {
			t.Fatal(err)
		}
		w.twice(t, "testservice.v1.ChargeService/Refund", refund(serve(t, nil, grpc.WithUnaryInterceptor(guard.Unary())), "out"))
	})
	t.Run("http", func(t *testing.T) {
		guard, err := httpguard.New(w.keeper, httpguard.Config{Tenant: func(*http.Request) (string, error) { return "acme", nil }})
		if err != nil {
			t.Fatal(err)
		}
		web := guard.Operation("refunds.create")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
		w.twice(t, "refunds.create", func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", strings.NewReader("a"))
			r.Header.Set("Idempotency-Key", `"1"`)
			web.ServeHTTP(httptest.NewRecorder(), r)
		})
	})
	t.Run("inbox", func(t *testing.T) {
		orders, err := inbox.New(w.keeper, inbox.Config{Tenant: "acme", Subscriber: "invoices"})
		if err != nil {
			t.Fatal(err)
		}
		w.twice(t, "inbox/invoices", func() {
			orders.Handle(t.Context(), inbox.Message{ID: "1"}, func(context.Context, *client.Attempt) error { return nil })
		})
	})
}

// Callers who share one call have each its own span, and their attempts each its own
// trace.
func TestCallersWhoShareACallKeepTheirOwnSpans(t *testing.T) {
	w := begin(t, client.WithCoalescing())
	const callers = 20
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { w.do(t.Context(), key(fmt.Sprint(i)), gives("done"), nil) })
	}
	all.Wait()
	spans := map[string]bool{}
	for _, s := range w.runs() {
		spans[fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.SpanContext().SpanID())] = true
	}
	for i := range callers {
		parent := w.Record(key(fmt.Sprint(i))).TraceParent
		if !spans[parent] {
			t.Errorf("number %d was begun in %q, which is no span of a Run, or another's", i, parent)
		}
		delete(spans, parent)
	}
	if len(spans) > 0 {
		t.Errorf("%v are of no record", spans)
	}
}
