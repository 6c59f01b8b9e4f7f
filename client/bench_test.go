package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// atOnce is a service that grants and takes everything, with no wire between.
type atOnce struct{ token *atomic.Int64 }

func (a atOnce) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	switch reply := reply.(type) {
	case *pb.BeginResponse:
		reply.Result = a.grant()
	case *pb.CompleteResponse:
	case *pb.BatchBeginResponse:
		for range args.(*pb.BatchBeginRequest).GetRequests() {
			reply.Results = append(reply.Results, &pb.BatchBeginResult{Result: &pb.BatchBeginResult_Response{Response: &pb.BeginResponse{Result: a.grant()}}})
		}
	case *pb.BatchSettleResponse:
		for range args.(*pb.BatchSettleRequest).GetSettlements() {
			reply.Results = append(reply.Results, &pb.BatchSettleResult{Result: &pb.BatchSettleResult_ExpireTime{}})
		}
	default:
		return fmt.Errorf("%s is not benchmarked", method)
	}
	return nil
}

func (a atOnce) grant() *pb.BeginResponse_Grant {
	return &pb.BeginResponse_Grant{Grant: &pb.Grant{
		FencingToken: a.token.Add(1), AttemptNumber: 1, Lease: durationpb.New(30 * time.Second), MaxResponseBytes: 1 << 20,
	}}
}

func (atOnce) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

// What a client adds to its two calls: by hand, and by Do, which also keeps the lease.
func BenchmarkPair(b *testing.B) {
	response := &oncekeeper.Response{Body: make([]byte, 256)}
	for name, opts := range map[string][]client.Option{"alone": nil, "coalescing": {client.WithCoalescing()}} {
		keeper := client.New(atOnce{new(atomic.Int64)}, opts...)
		b.Run("begin and settle "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				answer, err := keeper.Begin(b.Context(), client.BeginRequest{Key: key, FingerprintScheme: "raw", Fingerprint: make([]byte, 32)})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := keeper.Complete(b.Context(), key, answer.Grant.Token, response); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	keeper := client.New(atOnce{new(atomic.Int64)})
	b.Run("do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := client.Do(b.Context(), keeper, key, func(context.Context, *client.Attempt) ([]byte, error) { return response.Body, nil })
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
