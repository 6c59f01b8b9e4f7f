package server

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/storage"
)

func TestWhereNobodyIsToldOfCallsTheyCostNothingMore(t *testing.T) {
	s := &Server{spans: newSpans(nil), access: newAccessLog(AccessLog{PerSecond: 10, Keys: true}, nil)}
	for name, option := range map[string]grpc.ServerOption{"seeCalls": s.seeCalls(), "spans": s.spans.option(nil)} {
		if _, none := option.(grpc.EmptyServerOption); !none {
			t.Errorf("%s puts a %T before every call", name, option)
		}
	}
	results := make([]storage.Result, 1)
	perCall := testing.AllocsPerRun(10_000, func() {
		ctx, span := s.spans.storeCall(t.Context(), callApply, 1)
		seePrincipal(ctx, nil)
		s.spans.asleep(ctx)(&results[0])
		endCall(span, worst(results))
	})
	if perCall != 0 {
		t.Errorf("a call allocates %v times more", perCall)
	}
}
