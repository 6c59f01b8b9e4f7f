package server_test

import (
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestAGrantThatWasNotRunIsNoAttempt(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		once := func(id string) *pb.BeginRequest {
			req := begin(id, "")
			req.MaxAttempts = 1
			return req
		}
		for _, batched := range []bool{false, true, false, true} {
			g := h.grant(t, once("1"))
			if g.GetAttemptNumber() != 1 || g.GetTakeover() {
				t.Fatalf("the grant is %v, want the first attempt", g)
			}
			back := &pb.FailRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Disposition: pb.FailRequest_DISPOSITION_RETRYABLE, NotRun: true}
			for range 2 { // saying it again is no error
				if !batched {
					if _, err := h.Fail(testContext(t), back); err != nil {
						t.Fatal(err)
					}
					continue
				}
				res, err := h.BatchSettle(testContext(t), &pb.BatchSettleRequest{Settlements: []*pb.Settlement{{Settlement: &pb.Settlement_Fail{Fail: back}}}})
				if err != nil || res.GetResults()[0].GetExpireTime() == nil {
					t.Fatalf("BatchSettle gives %v, %v", res, err)
				}
			}
			rec := h.look(t, "1")
			if got := rec.GetState(); got != pb.KeyRecord_STATE_RELEASED || rec.GetAttemptNumber() != 0 || rec.GetOutcome().GetAttemptNumber() != 1 {
				t.Errorf("the record is %v, want it released, with no attempt counted", rec)
			}
			if got, want := wentThrough(rec), "NOT_RUN 1"; got != want {
				t.Errorf("it went through %q, want %q", got, want)
			}
		}
		h.failed(t, once("1"), pb.FailRequest_DISPOSITION_RETRYABLE)
		res, err := h.Begin(testContext(t), once("1"))
		if err != nil || res.GetOutcome().GetOrigin() != pb.Outcome_ORIGIN_EXHAUSTED {
			t.Errorf("after one attempt that ran Begin gives %v, %v; want EXHAUSTED", res, err)
		}
	})
}
