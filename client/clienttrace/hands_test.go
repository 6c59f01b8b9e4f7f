package clienttrace_test

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clienttrace"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

var errOut = errors.New("out of stock")

// anyError is what every error is.
type anyError struct{}

func (anyError) Error() string { return "some error" }

type worldKey struct{}

// supersede settles the attempt by another hand, so that its own settlement comes too
// late.
func supersede(ctx context.Context, a *client.Attempt) error {
	w := ctx.Value(worldKey{}).(*traced)
	_, err := w.keeper.Settle(ctx, client.Settlement{Key: a.Key(), Token: a.Token(), Ended: client.Ended{
		As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: []byte("another")},
	}})
	return err
}

// onWait gives a client of w that calls do before it first asks the service to hold a
// call: the client is then waiting for another attempt.
func (w *traced) onWait(do func(), opts ...client.Option) *client.Client {
	var once sync.Once
	conn := w.Dial(grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if begin, is := request.(*pb.BeginRequest); is && begin.GetWait() != nil {
			once.Do(do)
		}
		return invoke(ctx, method, request, reply, conn, opts...)
	}))
	return client.New(conn, append(opts, client.WithClock(w.Clock), client.WithTracer(clienttrace.New(w.provider)))...)
}
