package server_test

import (
	"strings"
	"testing"
	"time"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Traceparents, as W3C's Trace Context has them.
const (
	firstTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	secondTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func tracedBegin(id, trace string) *pb.BeginRequest {
	req := begin(id, "")
	req.TraceParent = trace
	return req
}

func (h *harness) answer(t *testing.T, req *pb.BeginRequest) *pb.BeginResponse {
	t.Helper()
	res, err := h.Begin(testContext(t), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestEveryAnswerNamesTheTraceOfTheAttemptThatItIsOf(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		req := tracedBegin("1", firstTrace)
		req.OnLeaseExpiry = pb.LeaseExpiry_LEASE_EXPIRY_HOLD
		first := h.answer(t, req).GetGrant()
		if first.GetPreviousTraceParent() != "" {
			t.Errorf("a first attempt has one before it, in %q", first.GetPreviousTraceParent())
		}
		if got := h.answer(t, tracedBegin("1", secondTrace)).GetInProgress().GetTraceParent(); got != firstTrace {
			t.Errorf("in progress names %q, want the trace of the attempt that runs, %q", got, firstTrace)
		}
		h.records.advance(time.Minute)
		if got := h.answer(t, tracedBegin("1", secondTrace)).GetUnresolved().GetTraceParent(); got != firstTrace {
			t.Errorf("unresolved names %q, want %q", got, firstTrace)
		}
		if _, err := h.Fail(testContext(t), &pb.FailRequest{
			Key: req.GetKey(), FencingToken: first.GetFencingToken(), Disposition: pb.FailRequest_DISPOSITION_RETRYABLE,
		}); err != nil {
			t.Fatal(err)
		}
		second := h.answer(t, tracedBegin("1", secondTrace)).GetGrant()
		if second.GetPreviousTraceParent() != firstTrace {
			t.Errorf("the second attempt is told %q of the first, want %q", second.GetPreviousTraceParent(), firstTrace)
		}
		h.complete(t, "1", second.GetFencingToken(), "done")
		if got := h.answer(t, tracedBegin("1", firstTrace)).GetOutcome().GetTraceParent(); got != secondTrace {
			t.Errorf("the outcome names %q, want the trace of the attempt that made it, %q", got, secondTrace)
		}
		rec := h.look(t, "1")
		if rec.GetTraceParent() != secondTrace || rec.GetHistory()[0].GetTraceParent() != firstTrace || rec.GetHistory()[1].GetTraceParent() != secondTrace {
			t.Errorf("the record names %q and what it went through is %v", rec.GetTraceParent(), rec.GetHistory())
		}
	})
}

func TestWhatIsNoTraceparentCountsAsNoneAndFailsNoCall(t *testing.T) {
	h := start(t, onPebble(t), setup{})
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, bad := range map[string]string{
		"empty":               "",
		"another version":     "01-" + trace + "-" + span + "-01",
		"a forbidden version": "ff-" + trace + "-" + span + "-01",
		"a trace of zeros":    "00-" + strings.Repeat("0", 32) + "-" + span + "-01",
		"a span of zeros":     "00-" + trace + "-" + strings.Repeat("0", 16) + "-01",
		"capitals":            "00-" + strings.ToUpper(trace) + "-" + span + "-01",
		"no hexadecimal":      "00-" + trace + "-" + span + "-0x",
		"too short":           firstTrace[:54],
		"too long":            firstTrace + "-",
		"far too long":        strings.Repeat(firstTrace, 1000),
		"other separators":    strings.ReplaceAll(firstTrace, "-", "_"),
		"something else":      strings.Repeat("\x00", 55),
	} {
		t.Run(name, func(t *testing.T) {
			if h.answer(t, tracedBegin(name, bad)).GetGrant() == nil {
				t.Fatal("it was not granted")
			}
			if got := h.answer(t, tracedBegin(name, bad)).GetInProgress().GetTraceParent(); got != "" {
				t.Errorf("%q was kept", got)
			}
		})
	}
}
