package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// held has "any" granted acme's key id, and who wait for it; it gives the grant's
// token, and the answers once all sleep.
func (h *guarded) held(t *testing.T, id string, who ...string) (token int64, answers map[string]<-chan answer) {
	t.Helper()
	res, err := h.Begin(as(t, "any"), &pb.BeginRequest{Key: of("acme", id), CallId: "holder"})
	if err != nil {
		t.Fatal(err)
	}
	answers = map[string]<-chan answer{}
	for _, name := range who {
		told, ctx := make(chan answer, 1), as(t, name)
		answers[name] = told
		go func() {
			res, err := h.Begin(ctx, &pb.BeginRequest{Key: of("acme", id), CallId: name, Wait: durationpb.New(10 * time.Second)})
			told <- answer{res, err}
		}()
	}
	h.asleep(t, len(who))
	return res.GetGrant().GetFencingToken(), answers
}

// remaining are the principals once acme's token is revoked.
func remaining(t *testing.T) *auth.Set {
	return people(t, "any, role: caller, tenant: '*'", "root, role: operator, tenant: '*'")
}

func TestAWaiterWhoseTokenIsRevokedIsToldSoonAndTheOthersWaitOn(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		_, answers := h.held(t, "1", "acme", "any")
		h.live.Use(remaining(t))
		h.advance(time.Second)
		wantReason(t, (<-answers["acme"]).err, codes.Unauthenticated, "UNAUTHENTICATED")
		h.asleep(t, 1)
		h.advance(9 * time.Second)
		if a := <-answers["any"]; a.err != nil || a.res.GetInProgress() == nil {
			t.Errorf("the other waiter is answered %v, %v, want in progress", a.res, a.err)
		}
	})
}

func TestAWaiterWhosePrincipalExpiresOrMayNoMoreIsToldSoon(t *testing.T) {
	h := guard(t, onPebble(t))
	_, answers := h.held(t, "1", "soon", "acme")
	// The principal soon expires a minute from the epoch, which is nearer than its wait.
	h.clock.Step(55 * time.Second)
	h.live.Use(people(t, "any, role: caller, tenant: '*'", "acme, role: caller, tenant: acme, operation: refund",
		"soon, role: caller, tenant: acme, expires: 2030-01-02T03:05:05Z"))
	h.advance(time.Second)
	wantReason(t, (<-answers["acme"]).err, codes.PermissionDenied, "PERMISSION_DENIED")
	for range 4 {
		h.advance(time.Second)
	}
	wantReason(t, (<-answers["soon"]).err, codes.Unauthenticated, "UNAUTHENTICATED")
	h.log.await(t, "the principal soon expired")
}

// What wakes a waiter comes before it is asked again who it is: it is asked then.
func TestAWaiterWhoseTokenIsRevokedIsGivenNeitherAnAnswerNorAGrant(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, h *guarded) {
		token, answers := h.held(t, "answered", "acme")
		h.live.Use(remaining(t))
		_, err := h.Complete(as(t, "any"), &pb.CompleteRequest{Key: of("acme", "answered"), FencingToken: token, Response: &pb.StoredResponse{Body: []byte("secret")}})
		if err != nil {
			t.Fatal(err)
		}
		wantReason(t, (<-answers["acme"]).err, codes.Unauthenticated, "UNAUTHENTICATED")

		h.live.Use(people(t, "any, role: caller, tenant: '*'", "acme, role: caller, tenant: acme"))
		token, answers = h.held(t, "free", "acme", "any")
		h.live.Use(remaining(t))
		_, err = h.Fail(as(t, "any"), &pb.FailRequest{Key: of("acme", "free"), FencingToken: token, Disposition: pb.FailRequest_DISPOSITION_RETRYABLE})
		if err != nil {
			t.Fatal(err)
		}
		h.advance(time.Second) // the other may have had the turn first
		wantReason(t, (<-answers["acme"]).err, codes.Unauthenticated, "UNAUTHENTICATED")
		if a := <-answers["any"]; a.err != nil || a.res.GetGrant().GetAttemptNumber() != 2 {
			t.Errorf("the one who may is answered %v, %v, want attempt 2", a.res, a.err)
		}
	})
}

func TestAnOpenStreamOfARevokedPrincipalIsAnsweredNoMore(t *testing.T) {
	h := guard(t, onPebble(t))
	stream, err := reflectionpb.NewServerReflectionClient(h.conn).ServerReflectionInfo(as(t, "acme"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func() codes.Code {
		_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		_, err := stream.Recv()
		return status.Code(err)
	}
	if got := ask(); got != codes.OK {
		t.Fatalf("before, the stream is answered %v", got)
	}
	h.live.Use(remaining(t))
	if got := ask(); got != codes.Unauthenticated {
		t.Errorf("after, the stream is answered %v", got)
	}
}

// Who calls is asked before the request is looked at, whatever bytes it is.
func TestWhatAStrangerSendsIsNotLookedAt(t *testing.T) {
	h := guard(t, onPebble(t))
	raw := grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})
	broken := map[string][]byte{"no message": {0xff, 0xff, 0xff}, "an invalid text": append([]byte{0x0a, 3, 0x0a, 1}, 0xff)}
	for _, service := range []*grpc.ServiceDesc{&pb.IdempotencyService_ServiceDesc, &pb.AdminService_ServiceDesc} {
		for _, m := range service.Methods {
			for name, bytes := range broken {
				method := fmt.Sprintf("/%s/%s", service.ServiceName, m.MethodName)
				call := func(ctx context.Context) error { return h.conn.Invoke(ctx, method, bytes, &pb.GetResponse{}, raw) }
				wantReason(t, call(testContext(t)), codes.Unauthenticated, "UNAUTHENTICATED")
				may, mayNot := "root", "acme"
				if service == &pb.IdempotencyService_ServiceDesc {
					may, mayNot = "any", "root"
				}
				wantReason(t, call(as(t, may)), codes.InvalidArgument, "INVALID_REQUEST")
				if m.MethodName == "Get" { // which both may call
					continue
				}
				if got := status.Code(call(as(t, mayNot))); got != codes.PermissionDenied {
					t.Errorf("%s, %s, by %s is answered %v", m.MethodName, name, mayNot, got)
				}
			}
		}
	}
}
