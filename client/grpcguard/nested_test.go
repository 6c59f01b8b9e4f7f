package grpcguard_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// The trailer alone tells it from the nested service's own answer.
func TestANestedRefusalThatLostItsDetailsIsNotKept(t *testing.T) {
	listener := bufconn.Listen(1 << 16)
	srv := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs(wire.ReasonTrailer, "UNRESOLVED")); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.FailedPrecondition, "nobody knows whether it ran")
	}))
	testservicev1.RegisterChargeServiceServer(srv, &service{})
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	nested := testservicev1.NewChargeServiceClient(dial(t, listener, grpc.WithUnaryInterceptor(attach.UnaryClientInterceptor())))

	k := startKeeper(t)
	s := &service{charge: func(ctx context.Context, _ *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
		_, err := nested.Capture(ctx, &testservicev1.CaptureRequest{}, attach.Key("x"))
		return nil, err
	}}
	g := serve(t, k, s, grpcguard.Config{})
	_, err := g.Charge(keyed(t, "k"), &testservicev1.ChargeRequest{Cents: 5})
	mustBe(t, err, codes.FailedPrecondition)
	if got := k.record(t, chargeOp, "k").State; got != oncekeeper.StateAbandoned {
		t.Errorf("the outer key is %v, want ABANDONED: it may run again", got)
	}
}
