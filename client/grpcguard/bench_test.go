package grpcguard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// BenchmarkGuard measures what a guard adds to a handler beyond its two calls:
// "guarded" less "two calls", both with a service that answers at once, in
// process; "run" is what is in between, the attempt with its lease. Marshalling the
// answer is in all. The request is a small one: what a fingerprint of 1 KiB costs is
// BenchmarkProtoOfAKilobyte's.
func BenchmarkGuard(b *testing.B) {
	response := &testservicev1.ChargeResponse{Name: "charges/1", Receipt: make([]byte, 256), Labels: map[string]string{}}
	for n := range 4 {
		response.Labels[fmt.Sprint("label", n)] = "value"
	}
	request := &testservicev1.ChargeRequest{RequestId: "order-1742", Cents: 1250, Card: &testservicev1.Card{Number: "4242424242424242"}}
	granted := &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{
		FencingToken: 1, AttemptNumber: 1, Lease: durationpb.New(30 * time.Second), MaxResponseBytes: 1 << 20,
	}}}
	body, err := proto.Marshal(response)
	if err != nil {
		b.Fatal(err)
	}
	done := &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: &pb.Outcome{Result: &pb.Outcome_Response{
		Response: &pb.StoredResponse{Body: body, ContentType: "type.googleapis.com/testservice.v1.ChargeResponse"},
	}}}}
	send := func(b *testing.B, answer any) {
		if _, err := proto.Marshal(answer.(proto.Message)); err != nil {
			b.Fatal(err)
		}
	}
	guarded := func(begin *pb.BeginResponse) func(*testing.B) {
		return func(b *testing.B) {
			guard, err := grpcguard.New(client.New(answering{begin}), grpcguard.Config{Tenant: acme})
			if err != nil {
				b.Fatal(err)
			}
			ctx, info := incoming(b, "order-1742"), info(chargeOp)
			handler := func(context.Context, any) (any, error) { return response, nil }
			b.ReportAllocs()
			for b.Loop() {
				answer, err := guard.Unary()(ctx, request, info, handler)
				if err != nil {
					b.Fatal(err)
				}
				send(b, answer)
			}
		}
	}
	b.Run("two calls", func(b *testing.B) {
		keeper := client.New(answering{granted})
		key := oncekeeper.Key{Tenant: "acme", Operation: chargeOp, ID: "order-1742"}
		b.ReportAllocs()
		for b.Loop() {
			begun, err := keeper.Begin(b.Context(), client.BeginRequest{Key: key})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := keeper.Complete(b.Context(), key, begun.Grant.Token, &oncekeeper.Response{Body: body}); err != nil {
				b.Fatal(err)
			}
			send(b, response)
		}
	})
	b.Run("run", func(b *testing.B) {
		keeper := client.New(answering{granted})
		req := client.Request{Key: oncekeeper.Key{Tenant: "acme", Operation: chargeOp, ID: "order-1742"}}
		b.ReportAllocs()
		for b.Loop() {
			_, err := keeper.Run(b.Context(), req, func(context.Context, *client.Attempt) client.Ended {
				return client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: body}}
			})
			if err != nil {
				b.Fatal(err)
			}
			send(b, response)
		}
	})
	b.Run("guarded", guarded(granted))
	b.Run("replayed", guarded(done))
	b.Run("fingerprint", func(b *testing.B) {
		digest, err := fingerprint.NewMessage(request.ProtoReflect().Descriptor(), fingerprint.MessageConfig{Ignore: []string{"request_id", "card.nonce"}})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := digest.Fingerprint(request); err != nil {
				b.Fatal(err)
			}
		}
	})
}
