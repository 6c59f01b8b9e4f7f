package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func released(id, etag string, force bool) *pb.ResolveRecordRequest {
	return &pb.ResolveRecordRequest{
		Key: key(id), Etag: etag, Force: force, Reason: "looked at the ledger",
		Resolution: &pb.ResolveRecordRequest_Release_{Release: &pb.ResolveRecordRequest_Release{}},
	}
}

func completed(id, etag string) *pb.ResolveRecordRequest {
	return &pb.ResolveRecordRequest{
		Key: key(id), Etag: etag, Reason: "looked at the ledger",
		Resolution: &pb.ResolveRecordRequest_Completed{Completed: &pb.StoredResponse{Body: []byte("paid"), Resource: "charges/7"}},
	}
}

func deleted(id, etag string, force bool) *pb.DeleteRecordRequest {
	return &pb.DeleteRecordRequest{Key: key(id), Etag: etag, Force: force, Reason: "a test's key"}
}

// TestWhatAnOperatorIsRefusedFirst is the order of refusals, written out: which
// states refuse what, and which refusal is told where several would fit.
func TestWhatAnOperatorIsRefusedFirst(t *testing.T) {
	const ok, gone, settled, changed, live = "", "KEY_NOT_FOUND", "ALREADY_SETTLED", "ETAG_MISMATCH", "IN_PROGRESS"
	type refusals struct{ stale, fresh, staleForced, forced string }
	for _, c := range []struct {
		state           pb.KeyRecord_State
		resolve, delete refusals
	}{
		{pb.KeyRecord_STATE_UNSPECIFIED, refusals{gone, gone, gone, gone}, refusals{gone, gone, gone, gone}},
		{pb.KeyRecord_STATE_PENDING, refusals{changed, live, changed, ok}, refusals{changed, live, changed, ok}},
		{pb.KeyRecord_STATE_ABANDONED, refusals{changed, ok, changed, ok}, refusals{changed, ok, changed, ok}},
		{pb.KeyRecord_STATE_UNRESOLVED, refusals{changed, ok, changed, ok}, refusals{changed, ok, changed, ok}},
		{pb.KeyRecord_STATE_RELEASED, refusals{changed, ok, changed, ok}, refusals{changed, ok, changed, ok}},
		{pb.KeyRecord_STATE_COMPLETED, refusals{settled, settled, settled, settled}, refusals{settled, settled, changed, ok}},
		{pb.KeyRecord_STATE_FAILED, refusals{settled, settled, settled, settled}, refusals{settled, settled, changed, ok}},
	} {
		t.Run(c.state.String(), func(t *testing.T) {
			onStores(t, func(t *testing.T, h *operated) {
				for method, want := range map[string]refusals{"resolve": c.resolve, "delete": c.delete} {
					for name, try := range map[string]struct {
						stale, force bool
						want         string
					}{
						"stale": {true, false, want.stale}, "fresh": {false, false, want.fresh},
						"stale, forced": {true, true, want.staleForced}, "fresh, forced": {false, true, want.forced},
					} {
						id, etag := method+" "+name, "1-1"
						if make := begun[c.state]; make != nil {
							make(t, h, id)
							if rec := h.look(t, id); rec.GetState() != c.state {
								t.Fatalf("the record is %v", rec)
							} else if !try.stale {
								etag = rec.GetEtag()
							}
						}
						var err error
						if method == "resolve" {
							_, err = h.ResolveRecord(testContext(t), released(id, etag, try.force))
						} else {
							_, err = h.DeleteRecord(testContext(t), deleted(id, etag, try.force))
						}
						if got := reasonOf(err); got != try.want {
							t.Errorf("%s, etag %s: got %q, want %q", method, name, got, try.want)
						}
					}
				}
			})
		})
	}
}

func TestAnOperatorResolvesAHeldKeyAndEveryoneGetsThatAnswer(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		token := begun[pb.KeyRecord_STATE_UNRESOLVED](t, h, "1")
		res, err := h.ResolveRecord(testContext(t), completed("1", h.look(t, "1").GetEtag()))
		if err != nil {
			t.Fatal(err)
		}
		if rec := h.look(t, "1"); rec.GetState() != pb.KeyRecord_STATE_COMPLETED || !proto.Equal(rec, res.GetRecord()) {
			t.Errorf("resolving gave %v; the record is %v", res.GetRecord(), rec)
		}
		again, err := h.Begin(testContext(t), begin("1", "later"))
		if o := again.GetOutcome(); err != nil || string(o.GetResponse().GetBody()) != "paid" || o.GetOrigin() != pb.Outcome_ORIGIN_OPERATOR {
			t.Errorf("a later Begin got %v, %v; want the operator's answer", again, err)
		}
		_, err = h.Complete(testContext(t), &pb.CompleteRequest{Key: key("1"), FencingToken: token})
		wantReason(t, err, codes.FailedPrecondition, "FENCED")
	})
}

func TestAnOperatorFailsOrReleasesAHeldKey(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		begun[pb.KeyRecord_STATE_UNRESOLVED](t, h, "failed")
		req := released("failed", h.look(t, "failed").GetEtag(), false)
		req.Resolution = &pb.ResolveRecordRequest_Failed{Failed: &pb.StoredStatus{Code: 9, Message: "the account is closed"}}
		if _, err := h.ResolveRecord(testContext(t), req); err != nil {
			t.Fatal(err)
		}
		res, err := h.Begin(testContext(t), begin("failed", "later"))
		if err != nil || res.GetOutcome().GetStatus().GetMessage() != "the account is closed" {
			t.Errorf("a later Begin got %v, %v; want the operator's failure", res, err)
		}

		token := begun[pb.KeyRecord_STATE_UNRESOLVED](t, h, "released")
		if _, err := h.ResolveRecord(testContext(t), released("released", h.look(t, "released").GetEtag(), false)); err != nil {
			t.Fatal(err)
		}
		g := h.grant(t, begin("released", "later"))
		if g.GetAttemptNumber() != 1 || g.GetTakeover() || g.GetFencingToken() <= token {
			t.Errorf("after a release the grant is %v; want attempt 1, no takeover, a token above %d", g, token)
		}
	})
}

func TestAnOperatorWhoLookedBeforeTheHolderSettledUndoesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		token := begun[pb.KeyRecord_STATE_UNRESOLVED](t, h, "1")
		etag := h.look(t, "1").GetEtag()
		h.complete(t, "1", token, "it had happened")
		for _, force := range []bool{false, true} {
			_, err := h.ResolveRecord(testContext(t), released("1", etag, force))
			wantReason(t, err, codes.FailedPrecondition, "ALREADY_SETTLED")
		}
		_, err := h.DeleteRecord(testContext(t), deleted("1", etag, true))
		wantReason(t, err, codes.Aborted, "ETAG_MISMATCH")
		if body := h.look(t, "1").GetOutcome().GetResponse().GetBody(); string(body) != "it had happened" {
			t.Errorf("the outcome is %q", body)
		}
	})
}

func TestALiveRecordTellsAnOperatorWhenToComeBack(t *testing.T) {
	h := operate(t, onPebble(t), nil)
	h.grant(t, begin("1", ""))
	var trailer metadata.MD
	_, err := h.ResolveRecord(testContext(t), released("1", h.look(t, "1").GetEtag(), false), grpc.Trailer(&trailer))
	wantReason(t, err, codes.Aborted, "IN_PROGRESS")
	if got := trailer.Get("oncekeeper-reason"); len(got) != 1 || got[0] != "IN_PROGRESS" {
		t.Errorf("the trailer is %v", trailer)
	}
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok && r.GetRetryDelay().AsDuration() > 0 {
			return
		}
	}
	t.Errorf("there is no RetryInfo in %v", status.Convert(err).Details())
}

func TestWaitersAreToldWhatAnOperatorDid(t *testing.T) {
	onStores(t, func(t *testing.T, h *operated) {
		for name, act := range map[string]func(id, etag string) error{
			"completed": func(id, etag string) error {
				req := completed(id, etag)
				req.Force = true
				_, err := h.ResolveRecord(testContext(t), req)
				return err
			},
			"released": func(id, etag string) error {
				_, err := h.ResolveRecord(testContext(t), released(id, etag, true))
				return err
			},
			"deleted": func(id, etag string) error {
				_, err := h.DeleteRecord(testContext(t), deleted(id, etag, true))
				return err
			},
		} {
			holder := h.grant(t, begin(name, "holder"))
			answers := make(chan *pb.BeginResponse, 1)
			go func() {
				res, err := h.Begin(testContext(t), waiting(name, "waiter", 10*time.Second))
				if err != nil {
					t.Errorf("%s: a waiter got %v", name, err)
				}
				answers <- res
			}()
			if err := h.server.AwaitAsleep(testContext(t), 1); err != nil {
				t.Fatal(err)
			}
			if err := act(name, h.look(t, name).GetEtag()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			res := <-answers
			switch g := res.GetGrant(); {
			case name == "completed" && string(res.GetOutcome().GetResponse().GetBody()) != "paid":
				t.Errorf("a waiter of a key that was completed got %v", res)
			case name != "completed" && (g.GetAttemptNumber() != 1 || g.GetTakeover() || g.GetFencingToken() <= holder.GetFencingToken()):
				t.Errorf("a waiter of a key that was %s got %v, want the first grant of a new life", name, res)
			}
			_, err := h.Complete(testContext(t), &pb.CompleteRequest{Key: key(name), FencingToken: holder.GetFencingToken()})
			wantReason(t, err, codes.FailedPrecondition, "FENCED")
		}
	})
}

func TestAResolutionOutsideItsLimitsNamesEachField(t *testing.T) {
	h := operate(t, onPebble(t), nil)
	for _, c := range []struct {
		field string
		spoil func(*pb.ResolveRecordRequest)
	}{
		{"key", func(r *pb.ResolveRecordRequest) { r.Key = nil }},
		{"key.id", func(r *pb.ResolveRecordRequest) { r.Key.Id = " 1" }},
		{"etag", func(r *pb.ResolveRecordRequest) { r.Etag = "" }},
		{"etag", func(r *pb.ResolveRecordRequest) { r.Etag = strings.Repeat("1", 65) }},
		{"resolution", func(r *pb.ResolveRecordRequest) { r.Resolution = nil }},
		{"completed.resource", func(r *pb.ResolveRecordRequest) { r.GetCompleted().Resource = strings.Repeat("r", 513) }},
		{"completed.body", func(r *pb.ResolveRecordRequest) { r.GetCompleted().Body = make([]byte, 1<<20+1) }},
		{"failed.code", func(r *pb.ResolveRecordRequest) {
			r.Resolution = &pb.ResolveRecordRequest_Failed{Failed: &pb.StoredStatus{}}
		}},
		{"reason", func(r *pb.ResolveRecordRequest) { r.Reason = "" }},
		{"reason", func(r *pb.ResolveRecordRequest) { r.Reason = " " }},
		{"reason", func(r *pb.ResolveRecordRequest) { r.Reason = strings.Repeat("r", 513) }},
		{"reason", func(r *pb.ResolveRecordRequest) { r.Reason = "two\nlines" }},
	} {
		t.Run(c.field, func(t *testing.T) {
			req := completed("1", "1-1")
			c.spoil(req)
			var trailer metadata.MD
			_, err := h.ResolveRecord(testContext(t), req, grpc.Trailer(&trailer))
			wantInvalid(t, err, trailer, c.field)
		})
	}
	_, err := h.ResolveRecord(testContext(t), &pb.ResolveRecordRequest{})
	if got, want := fmt.Sprint(violated(err)), "[key etag resolution reason]"; got != want {
		t.Errorf("an empty request names %s, want %s", got, want)
	}
	_, err = h.DeleteRecord(testContext(t), &pb.DeleteRecordRequest{})
	if got, want := fmt.Sprint(violated(err)), "[key etag reason]"; got != want {
		t.Errorf("an empty deletion names %s, want %s", got, want)
	}
}

func TestTheReasonIsLoggedWithTheKeyHashed(t *testing.T) {
	h := operate(t, onPebble(t), nil)
	const id = "secret-card-4711"
	h.grant(t, begin(id, ""))
	if _, err := h.ResolveRecord(testContext(t), released(id, h.look(t, id).GetEtag(), true)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.DeleteRecord(testContext(t), deleted(id, h.look(t, id).GetEtag(), false)); err != nil {
		t.Fatal(err)
	}
	text := h.log.String()
	for _, want := range []string{"an operator resolved a key", `reason="looked at the ledger"`, "state=RELEASED", "force=true", "an operator deleted a key", `reason="a test's key"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, id) || strings.Contains(text, "acme") {
		t.Errorf("the log names the key:\n%s", text)
	}
}
