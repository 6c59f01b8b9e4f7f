package client_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// interceptor may stand between the client and the fake.
type interceptor func(ctx context.Context, method string, call func(context.Context) error) error

// world is a client, its service, and the clock of both.
type world struct {
	*fake
	t      *testing.T
	clock  *testClock
	keeper *client.Client
	conn   *grpc.ClientConn

	between interceptor
	options []client.Option
}

func newWorld(t *testing.T, opts ...client.Option) *world {
	t.Helper()
	w := &world{t: t, clock: newTestClock()}
	w.fake = &fake{
		clock: w.clock, records: map[oncekeeper.Key]*oncekeeper.KeyRecord{}, changed: make(chan struct{}), heldChanged: make(chan struct{}), maxBytes: 1 << 20,
	}
	// Two held calls and one other is all that this proxy lets through at once.
	server := grpc.NewServer(grpc.MaxConcurrentStreams(3))
	pb.RegisterIdempotencyServiceServer(server, w.fake)
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///fake",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			call := func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) }
			if w.between == nil {
				return call(ctx)
			}
			return w.between(ctx, method[len("/oncekeeper.v1.IdempotencyService/"):], call)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w.conn = conn
	w.options = append([]client.Option{client.WithClock(w.clock), client.WithMaxWaits(2)}, opts...)
	w.keeper = client.New(conn, w.options...)
	return w
}

// errCut is what gRPC says of a connection that was cut.
var errCut = status.Error(codes.Unavailable, "connection cut")
