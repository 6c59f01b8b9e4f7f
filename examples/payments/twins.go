package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// patience bounds a meeting, so that a fault of the experiment is told and does
// not hang. No meeting depends on it.
const patience = time.Minute

var errAlone = errors.New("the other message of this debit neither came nor was answered")

// twins has the two messages of a debit meet in their handlers. Without it the
// ways that lose a race would lose it now and then; with it they do each time.
type twins struct {
	mu sync.Mutex
	// waiting has the debits of which one message is there and waits for the other.
	waiting map[string]chan struct{}
	// apart has those whose messages need not wait any more.
	apart map[string]bool
}

func newTwins() *twins {
	return &twins{waiting: map[string]chan struct{}{}, apart: map[string]bool{}}
}

// meet returns when the debit's other message is here too, or cannot be.
func (t *twins) meet(ctx context.Context, requestID string) error {
	met, wait := t.arrive(requestID)
	if !wait {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errAlone)
	defer cancel()
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		t.leave(requestID, met)
		return context.Cause(ctx)
	}
}

func (t *twins) arrive(requestID string) (met chan struct{}, wait bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.apart[requestID] {
		return nil, false
	}
	if met, here := t.waiting[requestID]; here {
		close(met)
		delete(t.waiting, requestID)
		return nil, false
	}
	met = make(chan struct{})
	t.waiting[requestID] = met
	return met, true
}

func (t *twins) leave(requestID string, met chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[requestID] == met {
		delete(t.waiting, requestID)
	}
}

// part says that one of the debit's messages will not come: it has its answer, or
// something holds it back. Nobody waits for it from now on.
func (t *twins) part(requestID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.apart[requestID] = true
	if met, here := t.waiting[requestID]; here {
		close(met)
		delete(t.waiting, requestID)
	}
}

// answered is before everything else in the service: a message that has its answer
// is waited for no more. One that is to be sent again comes once more.
func (t *twins) answered(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	if debit, ok := request.(*paymentsv1.DebitRequest); ok && status.Code(err) != codes.Unavailable {
		t.part(debit.GetRequestId())
	}
	return response, err
}

// heldBack listens to the guard's calls: a message that is told that its debit is
// in progress waits for the other's answer, so the other is not to wait for it.
func (t *twins) heldBack(
	ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	begin, isBegin := request.(*pb.BeginRequest)
	if answer, ok := reply.(*pb.BeginResponse); ok && isBegin && answer.GetInProgress() != nil {
		t.part(begin.GetKey().GetId())
	}
	return err
}
