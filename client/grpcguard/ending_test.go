package grpcguard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

// capturing makes one guarded call with ctx, and gives what is run its context.
func capturing(t *testing.T, ctx context.Context, run func(context.Context)) {
	t.Helper()
	outgoing, err := grpcguard.NewOutgoing(client.New(granting()), grpcguard.OutgoingConfig{Config: grpcguard.Config{Tenant: acme}})
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	err = outgoing.Unary()(ctx, "/"+captureOp, &testservicev1.CaptureRequest{}, &testservicev1.CaptureResponse{}, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			ran = true
			run(ctx)
			return nil
		}, attach.Key("k"))
	if err != nil || !ran {
		t.Fatalf("the call ran: %t, and gave %v", ran, err)
	}
}

func TestAnOutgoingCallHasItsCallersDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	capturing(t, ctx, func(run context.Context) {
		if got, ok := run.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("the downstream is given until %v (%t), want the caller's %v", got, ok, want)
		}
	})
	capturing(t, t.Context(), func(run context.Context) {
		if got, ok := run.Deadline(); ok {
			t.Errorf("the downstream is given until %v, and the caller has no deadline", got)
		}
	})
}

// watched is a context that counts who waits for its end.
type watched struct {
	context.Context
	done chan struct{}

	mu      sync.Mutex
	waiting int
}

func (w *watched) Done() <-chan struct{} { return w.done }

func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	return sync.OnceValue(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting--
		return true
	})
}

func (w *watched) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

// A caller's context may live as long as its process.
func TestAnOutgoingCallLeavesNothingBehindInItsCallersContext(t *testing.T) {
	ctx := &watched{Context: t.Context(), done: make(chan struct{})}
	capturing(t, ctx, func(context.Context) {
		if ctx.count() == 0 {
			t.Error("nothing waits for the caller's end")
		}
	})
	if n := ctx.count(); n != 0 {
		t.Errorf("%d still wait for the caller's end once the call is over", n)
	}
}
