package server_test

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// wentThrough gives a history as "EVENT attempt holder reason; ...".
func wentThrough(rec *pb.KeyRecord) string {
	var all []string
	for _, e := range rec.GetHistory() {
		what := strings.TrimPrefix(e.GetEvent().String(), "EVENT_")
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d %s%s", what, e.GetAttemptNumber(), e.GetHolder(), e.GetReason())))
	}
	return strings.Join(all, "; ")
}

func TestGetTellsWhatAKeyWentThrough(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		asks := func(holder string) *pb.BeginRequest {
			req := begin("1", "")
			req.Holder = holder
			return req
		}
		first := h.failed(t, asks("pod-1"), pb.FailRequest_DISPOSITION_RETRYABLE)
		h.grant(t, asks("pod-2"))
		if got, want := wentThrough(h.look(t, "1")), "RELEASED 1 pod-1; RUNNING 2 pod-2"; got != want {
			t.Fatalf("it went through %q, want %q", got, want)
		}
		if entry := h.look(t, "1").GetHistory()[0]; entry.GetFencingToken() != first || entry.GetStartTime() == nil || entry.GetEndTime() == nil || entry.GetStatus() == nil {
			t.Errorf("its first attempt is told as %v", entry)
		}
		res, err := h.ResolveRecord(testContext(t), released("1", h.look(t, "1").GetEtag(), true))
		if err != nil {
			t.Fatal(err)
		}
		decided := "RELEASED 1 pod-1; OVERRULED 2 pod-2; RESOLVED_RELEASED 0 looked at the ledger"
		if got := wentThrough(res.GetRecord()); got != decided || got != wentThrough(h.look(t, "1")) {
			t.Errorf("it went through %q by the answer, and %q by Get; want %q", got, wentThrough(h.look(t, "1")), decided)
		}
		if _, err := h.DeleteRecord(testContext(t), deleted("1", h.look(t, "1").GetEtag(), false)); err != nil {
			t.Fatal(err)
		}
		h.complete(t, "1", h.grant(t, asks("pod-3")).GetFencingToken(), "done")
		if got, want := wentThrough(h.look(t, "1")), decided+"; DELETED 0 a test's key; COMPLETED 1 pod-3"; got != want {
			t.Errorf("it went through %q, want %q", got, want)
		}
		for view, want := range map[pb.ListRecordsRequest_View]int{
			pb.ListRecordsRequest_VIEW_UNSPECIFIED: 0, pb.ListRecordsRequest_VIEW_BASIC: 0, pb.ListRecordsRequest_VIEW_FULL: 5,
		} {
			page, err := h.ListRecords(testContext(t), &pb.ListRecordsRequest{View: view})
			if err != nil || len(page.GetRecords()) != 1 || len(page.GetRecords()[0].GetHistory()) != want {
				t.Errorf("%v gives %v, %v; want %d entries", view, page, err, want)
			}
		}
	})
}
