package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/client/attach"
)

// Everyone who gets UNAVAILABLE sends the same message again, with the same
// request_id, after at least this pause and until it is answered.
const (
	pause    = 10 * time.Millisecond
	maxPause = 40 * time.Millisecond
)

// sendAgain is a client's usual loop.
func sendAgain(
	ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	for wait := pause; ; wait = min(2*wait, maxPause) {
		err := invoke(ctx, method, request, reply, conn, options...)
		if status.Code(err) != codes.Unavailable {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// attached does the same by attach, which also comes back when a guard says that
// another attempt is in progress. The key is in request_id, as the proto says. The
// budget is wide, since three in ten messages meet trouble here: the default one
// is for a network where fewer than one in ten do, and stops sending again.
func attached() grpc.UnaryClientInterceptor {
	return attach.UnaryClientInterceptor(
		attach.WithRetryUnavailable(),
		attach.WithDelays(pause, maxPause),
		attach.WithBudget(100, 1))
}
