// Package oncetest is Oncekeeper in a test's own process: the real service on a
// store in memory, with a clock that the test moves. A lease ends, a retention
// passes and a waiter is woken when the test says so, and no test sleeps.
//
//	keeper := oncetest.Start(t)
//	c := keeper.Client()
//	... begin, then:
//	keeper.Clock.Advance(time.Minute) // the lease is over
//
// [OneEffect] tries a handler of yours under every kind of trouble that makes
// operations happen twice: calls sent twice, answers lost, processes that die or
// stall, Oncekeeper away. The same trouble, by the piece: Server.Down,
// LoseSettlements and EndLeases; [SendTwice], [SendTwiceAtOnce] and [LoseAnswers] for
// gRPC clients, and their like for HTTP.
package oncetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/inprocess"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// Epoch is where a Server's clock stands at first.
var Epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// shutdownTimeout bounds the end of a test.
const shutdownTimeout = 10 * time.Second

// Server is a service that a test has to itself.
type Server struct {
	// Clock is the store's, the server's, and that of the clients that Client
	// makes. It moves only by Advance and Step.
	Clock *clock.Manual

	t      testing.TB
	keeper *inprocess.Keeper
	conn   *grpc.ClientConn
	faults *faults
}

// Option changes a Server.
type Option func(*inprocess.Config)

// WithPolicy has the server give what p says. Default: policy.Default.
func WithPolicy(p policy.Policy) Option { return func(c *inprocess.Config) { c.Policy = &p } }

// Start runs a service until the test ends. What is wrong fails the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{Clock: clock.NewManual(Epoch), t: t, faults: newFaults()}
	store, err := pebble.Open(pebble.Config{Clock: s.Clock})
	if err != nil {
		t.Fatalf("oncetest: %v", err)
	}
	cfg := inprocess.Config{Store: store, Clock: s.Clock}
	for _, opt := range opts {
		opt(&cfg)
	}
	if s.keeper, err = inprocess.Open(cfg); err != nil {
		t.Fatalf("oncetest: %v", errors.Join(err, store.Close()))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := s.keeper.Close(ctx); err != nil {
			t.Errorf("oncetest: %v", err)
		}
	})
	s.conn = s.Dial()
	return s
}

// Dial makes a connection of its own to the service, closed when the test ends.
func (s *Server) Dial(opts ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	conn, err := s.keeper.Dial(append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(s.faults.intercept)}, opts...)...)
	if err != nil {
		s.t.Fatalf("oncetest: %v", err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Client makes a client of the service, on the Server's clock and connection.
func (s *Server) Client(opts ...client.Option) *client.Client {
	return client.New(s.conn, append([]client.Option{client.WithClock(s.Clock)}, opts...)...)
}

// Admin gives the operators' side of the service, to resolve what a test holds.
func (s *Server) Admin() pb.AdminServiceClient {
	s.t.Helper()
	return pb.NewAdminServiceClient(s.Dial())
}

// Record gives what the service knows of key, and nil for nothing.
func (s *Server) Record(key oncekeeper.Key) *client.Record {
	s.t.Helper()
	rec, err := s.Client().Get(s.t.Context(), key)
	if errors.Is(err, oncekeeper.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		s.t.Fatalf("oncetest: reading %v: %v", key, err)
	}
	return rec
}
