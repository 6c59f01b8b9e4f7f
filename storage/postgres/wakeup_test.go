package postgres

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestWaitersHoldNoConnectionAndHearFromAnotherServer(t *testing.T) {
	const waiters = 500
	dsn := pgtest.Database(t)
	here := serveForTest(t, server.Config{Store: mustOpen(t, Config{DSN: dsn, MaxConns: 4})})
	there := serveForTest(t, server.Config{Store: mustOpen(t, Config{DSN: dsn, MaxConns: 4})})
	key := &pb.Key{Tenant: "t", Operation: "o", Id: "1"}
	begun, err := there.Begin(t.Context(), &pb.BeginRequest{Key: key, CallId: "holder"})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan *pb.BeginResponse, waiters)
	for i := range waiters {
		go func() {
			res, err := here.Begin(t.Context(), &pb.BeginRequest{Key: key, CallId: fmt.Sprint(i), Wait: durationpb.New(10 * time.Second)})
			if err != nil {
				t.Errorf("a waiter got %v", err)
			}
			answers <- res
		}()
	}
	for i := range 50 { // other keys' calls go through meanwhile
		other := &pb.Key{Tenant: "t", Operation: "o", Id: fmt.Sprintf("other %d", i)}
		res, err := here.Begin(t.Context(), &pb.BeginRequest{Key: other})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := here.Complete(t.Context(), &pb.CompleteRequest{Key: other, FencingToken: res.GetGrant().GetFencingToken()}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = there.Complete(t.Context(), &pb.CompleteRequest{
		Key: key, FencingToken: begun.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("paid")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range waiters {
		if res := <-answers; string(res.GetOutcome().GetResponse().GetBody()) != "paid" {
			t.Fatalf("a waiter got %v, want the outcome", res)
		}
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
