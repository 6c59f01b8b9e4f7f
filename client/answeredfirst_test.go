package client_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// billCodec keeps a response that has everything a response may have.
type billCodec struct{ receipt.Codec }

func bill() *oncekeeper.Response {
	return &oncekeeper.Response{
		Body: []byte(`"paid"`), ContentType: "application/json", StatusCode: 201, Resource: "bills/1",
		Metadata: []oncekeeper.MetadataEntry{{Name: "location", Value: []byte("/bills/1")}},
	}
}

func (billCodec) Encode(any) (*oncekeeper.Response, error) { return bill(), nil }

func TestWhatACallerMakesOfItsAnswerIsNotWhatIsSettled(t *testing.T) {
	s := newShop(t)
	arrived, letGo := s.holdCompletes(1)
	result, err := s.answerFirst(1, func(r *client.Request) { r.Codec = billCodec{} }, func(ctx context.Context, a *client.Attempt) client.Ended {
		ended := s.payFirst(ctx, a)
		if err := a.SetResource("bills/2"); err != nil { // the receipt has its own
			t.Error(err)
		}
		return ended
	})
	if err != nil || !result.Settling {
		t.Fatalf("Run = %+v, %v", result, err)
	}
	arrived()
	r := result.Ended.Response
	r.Body[1], r.Metadata[0].Value[1], r.Metadata[0].Name, r.StatusCode, r.Resource = 'X', 'X', "X", 500, "X"
	letGo(nil)
	if err := s.keeper.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, want := s.record(keyNumber(1)).Response, bill()
	if got == nil || string(got.Body) != string(want.Body) || got.ContentType != want.ContentType || got.StatusCode != want.StatusCode || got.Resource != want.Resource ||
		len(got.Metadata) != 1 || got.Metadata[0].Name != "location" || string(got.Metadata[0].Value) != "/bills/1" {
		t.Errorf("it is kept as %+v, want %+v", got, want)
	}
}

func TestAReceiptThatIsFoundIsAReplayAndSettledFirst(t *testing.T) {
	s := newShop(t)
	gone, err := s.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(1)})
	if err != nil || gone.Grant == nil {
		t.Fatalf("Begin = %+v, %v", gone, err)
	}
	row := applied(gone.Grant.Token)
	row.Key, row.Fingerprint, row.FingerprintScheme = keyNumber(1), nil, ""
	s.db.Put(row)
	s.clock.Advance(fakeLease)
	result, err := s.answerFirst(1, nil, func(context.Context, *client.Attempt) client.Ended {
		t.Error("it ran again")
		return client.Ended{}
	})
	if err != nil || result.Ran || result.Settling || result.Outcome == nil || string(result.Outcome.Response.Body) != `"paid"` {
		t.Errorf("Run = %+v, %v; want a replay", result, err)
	}
	if rec := s.record(keyNumber(1)); rec.State != oncekeeper.StoredCompleted {
		t.Errorf("when it is answered the record is %+v, want it completed", rec)
	}
	if st := s.keeper.Stats(); st.AnsweredFirst != 0 {
		t.Errorf("counted %+v, want none answered first", st)
	}
}

// The lease ends before Complete arrives, and another attempt has the key.
func TestWhoIsFencedAfterItsAnswerHasGivenTheBytesThatCount(t *testing.T) {
	s := newShop(t, client.WithSettleTimeout(time.Hour), client.WithCallTimeout(time.Hour))
	arrived, letGo := s.holdCompletes(1)
	first, err := s.answerFirst(1, nil, s.payFirst)
	if err != nil || !first.Settling {
		t.Fatalf("Run = %+v, %v", first, err)
	}
	arrived()
	s.clock.Advance(fakeLease)
	slow := s.keeper
	s.keeper, s.between = client.New(s.conn, client.WithClock(s.clock)), nil // another process
	second, err := s.answerFirst(1, nil, s.payFirst)
	if err != nil || second.Outcome == nil || string(second.Outcome.Response.Body) != string(first.Ended.Response.Body) {
		t.Errorf("the next attempt gives %+v, %v; want the same bytes", second, err)
	}
	before := s.record(keyNumber(1))
	letGo(nil)
	if err := slow.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := s.record(keyNumber(1)); after != before || after.State != oncekeeper.StoredCompleted || after.Token == first.Token {
		t.Errorf("the late settlement makes of %+v %+v", before, after)
	}
	if st := slow.Stats(); st.AnsweredFirst != 1 || st.AnsweredFirstLost != 1 || len(s.unsettled) != 0 {
		t.Errorf("counted %+v and told %+v; want one lost, and nobody told of what another settled", st, s.unsettled)
	}
	if n := s.db.Effects(keyNumber(1)); n != 1 {
		t.Errorf("it happened %d times", n)
	}
}

func TestEveryDrainWaitsForTheLast(t *testing.T) {
	s := newShop(t)
	held := make(chan struct{})
	s.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Complete" {
			<-held
		}
		return call(ctx)
	}
	for n := range 2 {
		if r, err := s.answerFirst(n, nil, s.payFirst); err != nil || !r.Settling {
			t.Fatalf("Run = %+v, %v", r, err)
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	drains := make([]<-chan error, 3)
	for i := range drains {
		drains[i] = background(func() error {
			err := s.keeper.Drain(t.Context())
			for n := range 2 {
				if rec := s.record(keyNumber(n)); rec.State != oncekeeper.StoredCompleted {
					t.Errorf("once drained the record %d is %+v, want it completed", n, rec)
				}
			}
			return err
		})
	}
	held <- struct{}{}
	for deadline := time.Now().Add(hang); ; runtime.Gosched() {
		if err := s.keeper.Drain(over); err == nil || time.Now().After(deadline) {
			t.Fatalf("Drain = %v, want that one is left", err)
		} else if strings.Contains(err.Error(), "oncekeeper: 1 attempts") {
			break
		}
	}
	held <- struct{}{}
	for _, drained := range drains {
		if err := recv(t, drained, "Drain's return"); err != nil {
			t.Errorf("Drain = %v", err)
		}
	}
}

func TestHoweverManyComeAtOnceNoMoreAreAnsweredFirstThanTheBound(t *testing.T) {
	const callers, most = 20, 3
	s := newShop(t, client.WithMaxAnsweredFirst(most))
	arrived, letGo := s.holdCompletes(callers)
	results := make([]client.Result, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			r, err := s.answerFirst(n, nil, s.payFirst)
			if err != nil || !r.Receipt {
				t.Errorf("Run = %+v, %v", r, err)
			}
			results[n] = r
		})
	}
	arrived()
	letGo(nil)
	all.Wait()
	first := 0
	for _, r := range results {
		if r.Settling {
			first++
		}
	}
	if first != most {
		t.Errorf("%d were answered first, want %d", first, most)
	}
	if err := s.keeper.Drain(t.Context()); err != nil {
		t.Errorf("Drain = %v", err)
	}
}

// An interceptor of the connection that ends its goroutine.
func TestASettlementWhoseGoroutineEndsIsCountedAndHoldsUpNoDrain(t *testing.T) {
	s := newShop(t)
	s.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Complete" {
			runtime.Goexit()
		}
		return call(ctx)
	}
	if r, err := s.answerFirst(1, nil, s.payFirst); err != nil || !r.Settling {
		t.Fatalf("Run = %+v, %v", r, err)
	}
	drained := background(func() error { return s.keeper.Drain(t.Context()) })
	if err := recv(t, drained, "Drain's return"); err != nil {
		t.Errorf("Drain = %v", err)
	}
	if st := s.keeper.Stats(); st.AnsweredFirst != 1 || st.AnsweredFirstLost != 1 {
		t.Errorf("counted %+v", st)
	}
}

// A panic after the commit goes on, and is no answer.
func TestAPanicAfterTheCommitIsSettledFirstAsTheReceiptHasIt(t *testing.T) {
	s := newShop(t)
	func() {
		defer func() {
			if got := recover(); got != "the reactor" {
				t.Errorf("recovered %v, want the function's own value", got)
			}
		}()
		_, _ = s.answerFirst(1, nil, func(ctx context.Context, a *client.Attempt) client.Ended {
			s.payFirst(ctx, a)
			panic("the reactor")
		})
	}()
	if rec := s.record(keyNumber(1)); rec.State != oncekeeper.StoredCompleted || string(rec.Response.Body) != `"paid"` {
		t.Errorf("the record is %+v, want it completed with what was committed", rec)
	}
	if st := s.keeper.Stats(); st.AnsweredFirst != 0 {
		t.Errorf("counted %+v, want none answered first", st)
	}
}

// What was rolled back has no receipt, whatever the function makes of it.
func TestAnEffectThatIsNotCommittedIsSettledFirst(t *testing.T) {
	s := newShop(t)
	result, err := s.answerFirst(1, nil, func(ctx context.Context, _ *client.Attempt) client.Ended {
		_, err := fakereceipts.InTx(ctx, s.db, func(context.Context) (string, error) { return "", errors.New("declined") })
		return client.EndedBy(oncekeeper.Final(err))
	})
	if err != nil || result.Settling || result.Receipt {
		t.Errorf("Run = %+v, %v; want it settled first", result, err)
	}
	if rec := s.record(keyNumber(1)); rec.State != oncekeeper.StoredFailed {
		t.Errorf("when it is answered the record is %+v, want it failed", rec)
	}
}
