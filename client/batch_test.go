package client_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func batchError(err error) *pb.BatchError {
	s, ok := oncekeeper.SentinelOf(wire.FromError(err, nil))
	if !ok {
		return &pb.BatchError{Code: int32(codes.Internal)}
	}
	return wire.BatchErrorToProto(s, wire.Details{})
}

func (f *fake) BatchBegin(ctx context.Context, req *pb.BatchBeginRequest) (*pb.BatchBeginResponse, error) {
	f.enter(ctx, "BatchBegin")
	resp := &pb.BatchBeginResponse{}
	for _, r := range req.GetRequests() {
		f.mu.Lock()
		f.begins = append(f.begins, r)
		f.mu.Unlock()
		item := &pb.BatchBeginResult{}
		if answer, err := f.beginOnce(ctx, r, f.clock.Monotonic()); err != nil {
			item.Result = &pb.BatchBeginResult_Error{Error: batchError(err)}
		} else {
			item.Result = &pb.BatchBeginResult_Response{Response: answer}
		}
		if err := f.itemRefusal(r.GetKey()); err != nil {
			item.Result = &pb.BatchBeginResult_Error{Error: batchError(err)}
		}
		if f.batchAnswers > 0 && proto.Size(item) > f.batchAnswers {
			item.Result = &pb.BatchBeginResult_Error{Error: batchError(refuse(ctx, oncekeeper.ErrAskAlone, ""))}
		}
		resp.Results = append(resp.Results, item)
	}
	return resp, nil
}

func (f *fake) BatchSettle(ctx context.Context, req *pb.BatchSettleRequest) (*pb.BatchSettleResponse, error) {
	f.enter(ctx, "BatchSettle")
	resp := &pb.BatchSettleResponse{}
	for _, s := range req.GetSettlements() {
		item := &pb.BatchSettleResult{}
		var err error
		if s.GetComplete() != nil {
			var r *pb.CompleteResponse
			r, err = f.Complete(ctx, s.GetComplete())
			item.Result = &pb.BatchSettleResult_ExpireTime{ExpireTime: r.GetExpireTime()}
		} else {
			var r *pb.FailResponse
			r, err = f.Fail(ctx, s.GetFail())
			item.Result = &pb.BatchSettleResult_ExpireTime{ExpireTime: r.GetExpireTime()}
		}
		if refusal := f.itemRefusal(settledKey(s)); refusal != nil {
			err = refusal
		}
		if err != nil {
			item.Result = &pb.BatchSettleResult_Error{Error: batchError(err)}
		}
		resp.Results = append(resp.Results, item)
	}
	return resp, nil
}

func settledKey(s *pb.Settlement) *pb.Key {
	if s.GetComplete() != nil {
		return s.GetComplete().GetKey()
	}
	return s.GetFail().GetKey()
}

func (f *fake) itemRefusal(key *pb.Key) error {
	if f.refuseItem == nil {
		return nil
	}
	return f.refuseItem(wire.KeyFromProto(key))
}

func TestABatchGivesEachItemItsOwnAnswer(t *testing.T) {
	w := newWorld(t)
	lost := map[string]bool{}
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if !lost[method] {
			lost[method] = true
			return errCut
		}
		return err
	}
	k2, k3 := key, key
	k2.ID, k3.ID = "k-2", "k-3"
	var begun []client.BeginResult
	done := background(func() (err error) {
		begun, err = w.keeper.BatchBegin(t.Context(), []client.BeginRequest{{Key: key}, {Key: k2}, {Key: k3, Hold: true}})
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	if err := recv(t, done, "BatchBegin's return"); err != nil {
		t.Fatal(err)
	}
	for i, b := range begun {
		if b.Err != nil || b.Answer.Grant == nil || b.Answer.Grant.Number != 1 {
			t.Fatalf("item %d is %+v, want its first grant though the answer was lost once", i, b)
		}
		if w.begins[i].GetCallId() != w.begins[i+3].GetCallId() || w.begins[i].GetCallId() == w.begins[(i+1)%3].GetCallId() {
			t.Errorf("item %d has not a call id of its own in both tries", i)
		}
	}

	var settled []client.SettleResult
	done = background(func() (err error) {
		settled, err = w.keeper.BatchSettle(t.Context(), []client.Settlement{
			{Key: key, Token: begun[0].Answer.Grant.Token, Ended: client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: []byte("b")}}},
			{Key: k2, Token: 1, Ended: client.Ended{As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: 5}}},
			{Key: k3, Token: begun[2].Answer.Grant.Token, Ended: client.Ended{As: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{Code: 2}}},
		})
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	if err := recv(t, done, "BatchSettle's return"); err != nil {
		t.Fatal(err)
	}
	if settled[0].Err != nil || settled[0].Expires != w.record(key).Expires {
		t.Errorf("the first is %+v", settled[0])
	}
	if !errors.Is(settled[1].Err, oncekeeper.ErrFenced) || status.Code(settled[1].Err) != codes.FailedPrecondition || client.Operation(settled[1].Err) != key.Operation {
		t.Errorf("the second is %+v, want ErrFenced", settled[1])
	}
	// Held, and so it never expires; said twice, though, UNKNOWN is still settled.
	if settled[2].Err != nil || settled[2].Expires != 0 {
		t.Errorf("the third is %+v", settled[2])
	}

	w.between = nil
	again, err := w.keeper.BatchBegin(t.Context(), []client.BeginRequest{{Key: key}, {Key: k2, Fingerprint: []byte{1}}, {Key: k3}})
	if err != nil {
		t.Fatal(err)
	}
	if o := again[0].Answer.Outcome; o == nil || string(o.Response.Body) != "b" {
		t.Errorf("the first replays as %+v", again[0])
	}
	if !errors.Is(again[1].Err, oncekeeper.ErrFingerprintMismatch) {
		t.Errorf("the second is %+v, want ErrFingerprintMismatch", again[1])
	}
	if again[2].Answer.Unresolved == nil {
		t.Errorf("the third is %+v, want it unresolved", again[2])
	}
}

func TestABatchWithoutAnAnswerForEachItemIsAnError(t *testing.T) {
	w := newWorld(t)
	w.between = func(context.Context, string, func(context.Context) error) error { return nil } // an empty answer
	if _, err := w.keeper.BatchBegin(t.Context(), []client.BeginRequest{{Key: key}}); err == nil {
		t.Error("BatchBegin gave no error")
	}
	if _, err := w.keeper.BatchSettle(t.Context(), []client.Settlement{{Key: key}}); err == nil {
		t.Error("BatchSettle gave no error")
	}
}

func TestGetGivesTheRecord(t *testing.T) {
	w := newWorld(t, client.WithHolder("pod-7"))
	if _, err := w.keeper.Get(t.Context(), key); !errors.Is(err, oncekeeper.ErrKeyNotFound) {
		t.Errorf("Get of no record = %v", err)
	}
	_, _ = client.Do(t.Context(), w.keeper, key, func(ctx context.Context, a *client.Attempt) ([]byte, error) {
		return []byte("b"), a.SaveCheckpoint(ctx, []byte("cp"))
	}, client.WithHold(), client.WithFingerprint("raw", []byte{1}))
	rec := w.record(key)
	want := &client.Record{
		Key: key, State: oncekeeper.StateCompleted, Etag: rec.Etag(), Fingerprint: []byte{1}, FingerprintScheme: "raw",
		Token: rec.Token, Number: 1, Holder: "pod-7", Created: rec.Created, LeaseEnd: rec.LeaseEnd, Settled: rec.Settled,
		Expires: rec.Expires, Outcome: rec.Outcome(), Checkpoint: []byte("cp"), Hold: true,
		History: []oncekeeper.HistoryEntry{
			{Token: rec.Token, Event: oncekeeper.EventCompleted, Attempt: 1, Holder: "pod-7", Ended: rec.Settled},
		},
	}
	if got, err := w.keeper.Get(t.Context(), key); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Get = %+v, %v\nwant  %+v", got, err, want)
	}
}
