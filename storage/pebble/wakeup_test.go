package pebble

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
)

func TestAWaiterIsNotWokenBeforeTheSettlementIsSynced(t *testing.T) {
	fs := newGateFS(vfs.NewMem())
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	store := mustOpen(t, Config{Dir: "d", FS: fs, Clock: clk})
	keeper := serveForTest(t, server.Config{Store: store, Clock: clk})
	key := &pb.Key{Tenant: "t", Operation: "o", Id: "1"}
	begun, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: key, CallId: "holder"})
	if err != nil {
		t.Fatal(err)
	}

	woken := make(chan *pb.BeginResponse, 1)
	go func() {
		res, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: key, CallId: "waiter", Wait: durationpb.New(10 * time.Second)})
		if err != nil {
			t.Errorf("the waiter got %v", err)
		}
		woken <- res
	}()
	if err := clk.AwaitTimers(t.Context(), 2); err != nil { // its time-out, and the lease's alarm
		t.Fatal(err)
	}
	fs.shut()
	settled := make(chan error, 1)
	go func() {
		_, err := keeper.Complete(t.Context(), &pb.CompleteRequest{Key: key, FencingToken: begun.GetGrant().GetFencingToken()})
		settled <- err
	}()
	<-fs.held
	select {
	case res := <-woken:
		fs.open()
		t.Fatalf("a waiter was woken with %v before the settlement was synced", res)
	case err := <-settled:
		fs.open()
		t.Fatalf("the settlement was answered (%v) before it was synced", err)
	case <-time.After(grace):
	}
	fs.open()
	if err := <-settled; err != nil {
		t.Errorf("the settlement got %v", err)
	}
	if res := <-woken; res.GetOutcome() == nil {
		t.Errorf("the waiter got %v, want the outcome", res)
	}
}

func serveForTest(t *testing.T, cfg server.Config) pb.IdempotencyServiceClient {
	t.Helper()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:test",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return pb.NewIdempotencyServiceClient(conn)
}
