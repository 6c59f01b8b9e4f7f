package grpcguard_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

func TestOnlyAnAttemptAfterAnUnknownOneTakesOver(t *testing.T) {
	k, s := startKeeper(t), &service{}
	errs := []error{oncekeeper.NotApplied(status.Error(codes.Aborted, "nothing done")), status.Error(codes.Unavailable, "who knows"), nil}
	s.capture = func(ctx context.Context, _ *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
		if got, want := grpcguard.Takeover(ctx), s.runs() == len(errs); got != want {
			t.Errorf("run %d takes over: %t, want %t", s.runs(), got, want)
		}
		return &testservicev1.CaptureResponse{}, errs[s.runs()-1]
	}
	g := serve(t, k, s, grpcguard.Config{})
	for _, want := range errs {
		_, err := g.Capture(keyed(t, "k"), &testservicev1.CaptureRequest{})
		mustBe(t, err, status.Code(want))
	}
	if grpcguard.Takeover(t.Context()) {
		t.Error("what is not guarded takes over")
	}
}

func TestAHandlersAttemptIsTheCallsInsideADoOfItsOwn(t *testing.T) {
	k := startKeeper(t)
	mail := oncekeeper.Key{Tenant: "acme", Operation: "mail", ID: "k"}
	s := &service{capture: func(ctx context.Context, _ *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
		_, err := client.Do(ctx, k.Client, mail, func(ctx context.Context, a *client.Attempt) (string, error) {
			if guards, ok := grpcguard.AttemptFrom(ctx); !ok || guards.Key().Operation != captureOp {
				t.Errorf("AttemptFrom gives an attempt: %t, want the call's", ok)
			}
			if inner, ok := client.AttemptFromContext(ctx); !ok || inner != a {
				t.Errorf("AttemptFromContext gives an attempt: %t, want the Do's own", ok)
			}
			return "sent", grpcguard.SetResource(ctx, "captures/1")
		})
		return &testservicev1.CaptureResponse{}, err
	}}
	g := serve(t, k, s, grpcguard.Config{})
	_, err := g.Capture(keyed(t, "k"), &testservicev1.CaptureRequest{})
	mustBe(t, err, codes.OK)
	if got := k.record(t, captureOp, "k").Outcome.Response.Resource; got != "captures/1" {
		t.Errorf("the call's resource is %q, want captures/1", got)
	}
}
