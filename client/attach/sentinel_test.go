package attach_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

func TestARefusalIsToldByItsSentinel(t *testing.T) {
	stripped := func(code codes.Code, reason string) answer {
		return answer{err: status.Error(code, "what a proxy left"), trailer: metadata.Pairs(wire.ReasonTrailer, reason)}
	}
	for name, c := range map[string]struct {
		answer answer
		want   error
	}{
		"a mismatch":                   {answer{err: refusal(t, oncekeeper.ErrFingerprintMismatch, refund, 0)}, oncekeeper.ErrFingerprintMismatch},
		"a mismatch, details stripped": {stripped(codes.FailedPrecondition, "FINGERPRINT_MISMATCH"), oncekeeper.ErrFingerprintMismatch},
		"an unresolved key, stripped":  {stripped(codes.FailedPrecondition, "UNRESOLVED"), oncekeeper.ErrUnresolved},
		"of a service further down":    {answer{err: refusal(t, oncekeeper.ErrUnresolved, charge, 0)}, oncekeeper.ErrUnresolved},
		"in progress, to the end":      {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, time.Hour)}, oncekeeper.ErrInProgress},
		"and no more budget":           {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, 0)}, oncekeeper.ErrInProgress},
		"none of Oncekeeper's":         {answer{err: status.Error(codes.NotFound, "no such charge")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := refundWith(t, &service{answers: []answer{c.answer}}, attach.WithBudget(0, 0))
			sentinel, ok := oncekeeper.SentinelOf(err)
			if ok != (c.want != nil) || ok && !errors.Is(c.want, sentinel) {
				t.Errorf("error %v is %v, want %v", err, sentinel, c.want)
			}
			got, want := status.Convert(err).Proto(), status.Convert(c.answer.err).Proto()
			if name == "and no more budget" && strings.Contains(got.GetMessage(), "attach.WithBudget") {
				got.Message = want.GetMessage()
			}
			if !proto.Equal(got, want) {
				t.Errorf("its status is %v, want what was answered, %v", got, want)
			}
		})
	}
}

// A service that asks for a key refuses a call that this end did not know to give
// one.
func TestARefusalOfACallWithoutAKeyIsToldByItsSentinelToo(t *testing.T) {
	s := &service{answers: []answer{{
		err: status.Error(codes.InvalidArgument, "a key is required"), trailer: metadata.Pairs(wire.ReasonTrailer, "INVALID_REQUEST"),
	}}}
	_, err := start(t, s).Look(t.Context(), &testservicev1.LookRequest{})
	if !errors.Is(err, oncekeeper.ErrInvalidRequest) || status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v, want INVALID_ARGUMENT that is ErrInvalidRequest", err)
	}
}
