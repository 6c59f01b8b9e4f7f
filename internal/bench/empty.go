package bench

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// emptyToken marks an empty call: no grant has such a token.
const emptyToken = 1<<63 - 1

// emptyHolder marks an empty Begin, and is as long as a host's name.
const emptyHolder = "empty-call"

// AnswerEmptyCalls answers the calls that EmptyCalls makes, without the store: the
// least that a call of these messages can cost on this machine. A server that is
// measured has it; no other.
func AnswerEmptyCalls(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch req := req.(type) {
	case *pb.BeginRequest:
		if req.GetHolder() == emptyHolder {
			return emptyGrant(), nil
		}
	case *pb.CompleteRequest:
		if req.GetFencingToken() == emptyToken {
			return &pb.CompleteResponse{ExpireTime: timestamppb.Now()}, nil
		}
	}
	return handler(ctx, req)
}

func emptyGrant() *pb.BeginResponse {
	return &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{
		FencingToken: time.Now().UnixMicro(), Lease: durationpb.New(30 * time.Second), LeaseExpireTime: timestamppb.Now(),
		AttemptNumber: 1, MaxResponseBytes: 1 << 20,
	}}}
}

// answersEmptyCalls says whether the server does. Any other has no such key, and
// nothing changes in it.
func answersEmptyCalls(ctx context.Context, service pb.IdempotencyServiceClient, key *pb.Key) bool {
	_, err := service.Complete(ctx, &pb.CompleteRequest{Key: key, FencingToken: emptyToken})
	return err == nil
}
