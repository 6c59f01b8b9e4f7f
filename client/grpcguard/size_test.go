package grpcguard_test

import (
	"bytes"
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// Case 19.
func TestAResponseOfAnySizeReachesItsFirstCaller(t *testing.T) {
	const limit = 64 << 10
	k := startKeeper(t, func(p *policy.Policy) { p.MaxResponseBytes = limit })
	// name(1) + len(1) + "charges/1"(9) stand before receipt: tag(1) + len(3).
	const envelope = 11 + 4
	for _, c := range []struct {
		name string
		size int
		kept bool
	}{{"nothing", 0, true}, {"the limit", limit, true}, {"one more", limit + 1, false}, {"more than a gRPC message", 4<<20 + 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			response := &testservicev1.ChargeResponse{}
			if c.size > 0 {
				response.Name, response.Receipt = "charges/1", bytes.Repeat([]byte{7}, c.size-envelope)
				if c.size == limit+1 || c.size == limit {
					if got := proto.Size(response); got != c.size {
						t.Fatalf("the response has %d bytes, want %d", got, c.size)
					}
				}
			}
			s := &service{charge: func(ctx context.Context, _ *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
				return response, grpcguard.SetResource(ctx, "charges/1")
			}}
			g := serve(t, k, s, grpcguard.Config{})
			request := &testservicev1.ChargeRequest{RequestId: c.name}
			first, err := g.Charge(t.Context(), request)
			if err != nil || !proto.Equal(first, response) {
				t.Fatalf("the first caller got %d bytes, %v; want all %d", proto.Size(first), err, c.size)
			}
			for range 2 {
				var told reply
				again, err := g.Charge(t.Context(), request, told.options()...)
				if c.kept {
					if err != nil || !proto.Equal(again, response) || !told.replayed() {
						t.Errorf("a later caller got %d bytes, %v; want a replay of all %d", proto.Size(again), err, c.size)
					}
					continue
				}
				e := refusal(t, err, oncekeeper.ErrResponseNotKept, chargeOp, codes.FailedPrecondition)
				if e.metadata["resource"] != "charges/1" {
					t.Errorf("the refusal says %v, want the resource", e.metadata)
				}
			}
			if s.runs() != 1 {
				t.Errorf("the handler ran %d times", s.runs())
			}
		})
	}
}

func TestAResponseThatCannotBeEncodedDoesNotRunAgain(t *testing.T) {
	s := &service{refund: func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		return &testservicev1.RefundResponse{Name: "\xff"}, nil
	}}
	k := startKeeper(t)
	g := serve(t, k, s, grpcguard.Config{})
	_, told := g.refundOnce(t, "k")
	mustBe(t, told.err, codes.Internal) // gRPC's own answer
	if kept := k.record(t, refundOp, "k").Outcome.Response; !kept.Omitted {
		t.Errorf("what is kept is %+v, want a response that is omitted", kept)
	}
	_, told = g.refundOnce(t, "k")
	refusal(t, told.err, oncekeeper.ErrResponseNotKept, refundOp, codes.FailedPrecondition)
	if s.runs() != 1 {
		t.Errorf("the handler ran %d times", s.runs())
	}
}
