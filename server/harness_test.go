package server_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

// epoch is where test clocks stand at first.
var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// harness is a server, whose clock and whose store's clock the test moves.
type harness struct {
	pb.IdempotencyServiceClient
	records records
	clock   *clock.Manual
	server  *server.Server
	conn    *grpc.ClientConn
}

type setup struct {
	policy     policy.Policy
	store      func(storage.Store) storage.Store
	waiters    int
	allWaiters int
	codec      grpc.CallOption
	// config changes whatever else a server is made of.
	config func(*server.Config)
}

// start serves the records, by a server of its own each time.
func start(t testing.TB, on records, with setup) *harness {
	t.Helper()
	store := on.open(t)
	if with.store != nil {
		store = with.store(store)
	}
	if with.policy == (policy.Policy{}) {
		with.policy = policy.Default()
	}
	clk := clock.NewManual(epoch)
	cfg := server.Config{Store: store, Policy: &with.policy, Clock: clk, MaxWaitersPerKey: with.waiters, MaxWaiters: with.allWaiters}
	if with.config != nil {
		with.config(&cfg)
	}
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	opts := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}
	if with.codec != nil {
		opts = append(opts, grpc.WithDefaultCallOptions(with.codec))
	}
	conn, err := grpc.NewClient("passthrough:test", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := srv.Shutdown(testContext(t)); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return &harness{IdempotencyServiceClient: pb.NewIdempotencyServiceClient(conn), records: on, clock: clk, server: srv, conn: conn}
}

// advance moves time on: first the store's, then the server's, whose timers fire.
func (h *harness) advance(d time.Duration) {
	h.records.advance(d)
	h.clock.Advance(d)
}

// testContext bounds a test's wait, so that a fault is a failure and not a hang.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func key(id string) *pb.Key { return &pb.Key{Tenant: "acme", Operation: "pay", Id: id} }

func begin(id, call string) *pb.BeginRequest {
	return &pb.BeginRequest{Key: key(id), Fingerprint: []byte("f"), CallId: call}
}

func waiting(id, call string, wait time.Duration) *pb.BeginRequest {
	req := begin(id, call)
	req.Wait = durationpb.New(wait)
	return req
}

// grant begins and fails the test unless it is granted.
func (h *harness) grant(t testing.TB, req *pb.BeginRequest) *pb.Grant {
	t.Helper()
	res, err := h.Begin(testContext(t), req)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if res.GetGrant() == nil {
		t.Fatalf("Begin was answered %v, want a grant", res)
	}
	return res.GetGrant()
}

func (h *harness) complete(t *testing.T, id string, token int64, body string) {
	t.Helper()
	_, err := h.Complete(testContext(t), &pb.CompleteRequest{
		Key: key(id), FencingToken: token, Response: &pb.StoredResponse{Body: []byte(body)},
	})
	if err != nil {
		t.Fatalf("Complete: %v", err)
	}
}

func (h *harness) fail(t *testing.T, id string, token int64, as pb.FailRequest_Disposition) {
	t.Helper()
	_, err := h.Fail(testContext(t), &pb.FailRequest{Key: key(id), FencingToken: token, Disposition: as, Status: &pb.StoredStatus{Code: 9, Message: "no"}})
	if err != nil {
		t.Fatalf("Fail: %v", err)
	}
}
