package oncetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// SendTwice sends every call twice, one after the other, as a proxy or an impatient
// retry does, and gives the second's answer. It stands further in than attach, so
// that both have one key.
func SendTwice() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		_ = invoke(ctx, method, request, another(reply), conn, twins(options)...)
		return invoke(ctx, method, request, reply, conn, options...)
	}
}

// SendTwiceAtOnce sends every call twice at once, and gives the answer that is OK,
// and where both are or none is, the second's.
func SendTwiceAtOnce() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		twin := another(reply)
		var twinErr error
		var sent sync.WaitGroup
		sent.Go(func() { twinErr = invoke(ctx, method, request, twin, conn, twins(options)...) })
		err := invoke(ctx, method, request, reply, conn, options...)
		sent.Wait()
		if err == nil || twinErr != nil {
			return err
		}
		give(twin, reply)
		return nil
	}
}

// LoseAnswers loses the answers of the next n calls that are answered OK: the
// handler ran, and the caller gets UNAVAILABLE.
func LoseAnswers(n int) grpc.UnaryClientInterceptor {
	var lost atomic.Int64
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		answer := another(reply)
		if err := invoke(ctx, method, request, answer, conn, options...); err != nil {
			return err
		}
		if lost.Add(1) <= int64(n) {
			return status.Error(codes.Unavailable, "oncetest: the answer was lost")
		}
		give(answer, reply)
		return nil
	}
}

// twins gives what of a call's options its twin has too: not what tells the caller
// of the answer.
func twins(options []grpc.CallOption) []grpc.CallOption {
	return slices.DeleteFunc(slices.Clone(options), func(o grpc.CallOption) bool {
		switch o.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption, grpc.OnFinishCallOption:
			return true
		default:
			return false
		}
	})
}

// another gives a reply of reply's type, for an answer that nobody gets. It is reply
// itself where that is no message.
func another(reply any) any {
	if m, ok := reply.(proto.Message); ok {
		return m.ProtoReflect().New().Interface()
	}
	return reply
}

func give(answer, reply any) {
	if m, ok := reply.(proto.Message); ok {
		proto.Reset(m)
		proto.Merge(m, answer.(proto.Message))
	}
}
