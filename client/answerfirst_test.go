package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
)

// answerFirst has the shop's operation answered first, of the key of number.
func (s *shop) answerFirst(number int, change func(*client.Request), run func(context.Context, *client.Attempt) client.Ended) (client.Result, error) {
	req := client.Request{Key: keyNumber(number), Receipts: s.db, Codec: codecOf(`"paid"`), AnswerFirst: true}
	if change != nil {
		change(&req)
	}
	return s.keeper.Run(s.t.Context(), req, run)
}

// payFirst is the operation: its effect is in its transaction.
func (s *shop) payFirst(ctx context.Context, _ *client.Attempt) client.Ended {
	if _, err := fakereceipts.InTx(ctx, s.db, func(context.Context) (string, error) { return "paid", nil }); err != nil {
		s.t.Errorf("InTx gives %v", err)
	}
	return client.Ended{As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: 9}} // the receipt counts
}

// holdCompletes keeps Completes from the service, and gives what waits until so many
// have come, and what lets them go with err (nil: to the service).
func (s *shop) holdCompletes(number int) (arrived func(), letGo func(err error)) {
	held, came, verdict := make(chan struct{}), make(chan struct{}, 100), error(nil)
	s.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method != "Complete" {
			return call(ctx)
		}
		came <- struct{}{}
		<-held
		if verdict != nil {
			return verdict
		}
		return call(ctx)
	}
	arrived = func() {
		s.t.Helper()
		for range number {
			recv(s.t, came, "a Complete")
		}
	}
	return arrived, func(err error) {
		verdict = err
		close(held)
	}
}

func TestAnAnswerThatItsReceiptHoldsGoesOutBeforeItIsSettled(t *testing.T) {
	s := newShop(t)
	arrived, letGo := s.holdCompletes(1)
	result, err := s.answerFirst(1, nil, s.payFirst)
	if err != nil || !result.Ran || !result.Receipt || !result.Settling || string(result.Ended.Response.Body) != `"paid"` {
		t.Fatalf("Run = %+v, %v; want what was committed, being settled", result, err)
	}
	// A duplicate of that moment.
	again, err := s.answerFirst(1, nil, s.payFirst)
	if err != nil || again.InProgress == nil {
		t.Errorf("meanwhile Run = %+v, %v; want it in progress", again, err)
	}
	result.Ended.Response.Body[1] = 'X' // the caller's own by now
	drained := background(func() error { return s.keeper.Drain(t.Context()) })
	arrived()
	letGo(nil)
	if err := recv(t, drained, "Drain's return"); err != nil {
		t.Errorf("Drain = %v", err)
	}
	if rec := s.record(keyNumber(1)); rec.State != oncekeeper.StoredCompleted || string(rec.Response.Body) != `"paid"` {
		t.Errorf("once drained the record is %+v, want it completed with what was committed", rec)
	}
	if again, err := s.answerFirst(1, nil, s.payFirst); err != nil || again.Outcome == nil {
		t.Errorf("after it Run = %+v, %v; want a replay", again, err)
	}
	// A client that was drained settles first.
	if late, err := s.answerFirst(2, nil, s.payFirst); err != nil || late.Settling || s.record(keyNumber(2)).State != oncekeeper.StoredCompleted {
		t.Errorf("after Drain Run = %+v, %v; want it settled first", late, err)
	}
	if st := s.keeper.Stats(); st.AnsweredFirst != 1 || st.AnsweredFirstLost != 0 {
		t.Errorf("counted %+v", st)
	}
}

// The process dies between the answer and Complete.
func TestWhoDiesBetweenTheAnswerAndItsSettlementLeavesTheReceipt(t *testing.T) {
	s := newShop(t)
	arrived, letGo := s.holdCompletes(1)
	first, err := s.answerFirst(1, nil, s.payFirst)
	if err != nil || !first.Settling {
		t.Fatalf("Run = %+v, %v", first, err)
	}
	arrived()
	s.clock.Advance(fakeLease)
	next := client.New(s.conn, client.WithClock(s.clock)) // another process
	s.keeper, s.between = next, nil
	second, err := s.answerFirst(1, func(r *client.Request) { r.AnswerFirst = false }, func(context.Context, *client.Attempt) client.Ended {
		t.Error("it ran again")
		return client.Ended{}
	})
	letGo(errCut) // of the dead one nothing comes
	if err != nil || second.Outcome == nil || string(second.Outcome.Response.Body) != string(first.Ended.Response.Body) {
		t.Errorf("the next attempt gives %+v, %v; want the same bytes", second, err)
	}
	if n := s.db.Effects(keyNumber(1)); n != 1 {
		t.Errorf("it happened %d times", n)
	}
}

func TestWhatNoReceiptHoldsIsSettledFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*client.Request)
		run    func(*shop) func(context.Context, *client.Attempt) client.Ended
	}{
		"hold": {change: func(r *client.Request) { r.Hold = true }},
		"a value without InTx": {run: func(*shop) func(context.Context, *client.Attempt) client.Ended {
			return func(context.Context, *client.Attempt) client.Ended {
				return client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{}}
			}
		}},
		"a failure": {run: func(*shop) func(context.Context, *client.Attempt) client.Ended {
			return func(context.Context, *client.Attempt) client.Ended {
				return client.Ended{As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: 9}}
			}
		}},
		"not asked for": {change: func(r *client.Request) { r.AnswerFirst = false }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			run := s.payFirst
			if c.run != nil {
				run = c.run(s)
			}
			result, err := s.answerFirst(1, c.change, run)
			if err != nil || result.Settling {
				t.Errorf("Run = %+v, %v; want it settled first", result, err)
			}
			if rec := s.record(keyNumber(1)); rec.State != oncekeeper.StoredCompleted && rec.State != oncekeeper.StoredFailed {
				t.Errorf("when it is answered the record is %+v, want it settled", rec)
			}
		})
	}
	s := newShop(t)
	if _, err := s.answerFirst(1, func(r *client.Request) { r.Receipts, r.Codec = nil, nil }, s.payFirst); !errors.Is(err, oncekeeper.ErrInvalidRequest) {
		t.Errorf("without receipts Run = %v, want ErrInvalidRequest", err)
	}
}

func TestNoMoreAreAnsweredFirstThanTheBoundAndDrainSaysHowManyAreLeft(t *testing.T) {
	s := newShop(t, client.WithMaxAnsweredFirst(2))
	arrived, letGo := s.holdCompletes(3)
	for n := range 2 {
		if r, err := s.answerFirst(n, nil, s.payFirst); err != nil || !r.Settling {
			t.Fatalf("Run = %+v, %v", r, err)
		}
	}
	third := make(chan client.Result, 1)
	go func() {
		r, _ := s.answerFirst(3, nil, s.payFirst)
		third <- r
	}()
	late := errors.New("the deadline of the shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := s.keeper.Drain(ctx); !errors.Is(err, late) || fmt.Sprint(err)[:24] != "oncekeeper: 2 attempts w" {
		t.Errorf("Drain = %v, want that two are left", err)
	}
	select {
	case r := <-third:
		t.Errorf("the third was answered as %+v, and is not settled", r)
	default:
	}
	arrived()
	letGo(nil)
	if r := recv(t, third, "the third's answer"); r.Settling || !r.Receipt {
		t.Errorf("the third is %+v, want it settled first", r)
	}
	if err := s.keeper.Drain(t.Context()); err != nil {
		t.Errorf("Drain = %v", err)
	}
}

func TestAnAnswerThatCannotBeSettledAfterItIsReportedAndCounted(t *testing.T) {
	s := newShop(t, client.WithSettleTimeout(time.Second), client.WithRetryBudget(0, 0))
	arrived, letGo := s.holdCompletes(1)
	result, err := s.answerFirst(1, nil, s.payFirst)
	if err != nil || !result.Settling {
		t.Fatalf("Run = %+v, %v", result, err)
	}
	arrived()
	s.clock.Advance(time.Second) // its time is over
	letGo(errCut)
	if err := s.keeper.Drain(t.Context()); err != nil {
		t.Errorf("Drain = %v", err)
	}
	if st := s.keeper.Stats(); st.AnsweredFirst != 1 || st.AnsweredFirstLost != 1 {
		t.Errorf("counted %+v", st)
	}
	if len(s.unsettled) != 1 || s.unsettled[0].As != oncekeeper.SettledComplete || !errors.Is(s.unsettled[0].Err, client.ErrUnavailable) {
		t.Errorf("told %+v", s.unsettled)
	}
}
