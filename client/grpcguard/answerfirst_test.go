package grpcguard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

// answeringFirst is a bank that answers first; its method's options are o.
func answeringFirst(t *testing.T, o *optionsv1.IdempotencyOptions) *bank {
	t.Helper()
	k := startKeeper(t)
	k.connect(client.WithClock(k.clock), client.WithRetryBudget(0, 0), client.WithSettleTimeout(time.Second))
	b := &bank{service: &service{}, db: &fakereceipts.Store{}}
	b.refund = b.inTx
	b.guarded = serve(t, k, b.service, grpcguard.Config{
		Receipts: b.db, AnswerFirst: true, ReplayHeader: []string{"location"}, Methods: map[string]grpcguard.Method{refundOp: {Options: o}},
	})
	return b
}

// The process dies after its answer and before its Complete.
func TestARefundThatIsAnsweredFirstIsFoundByItsReceiptThoughItIsNeverSettled(t *testing.T) {
	b := answeringFirst(t, &optionsv1.IdempotencyOptions{})
	b.keeper.lose("Complete")
	b.mustRefund(t, false)
	if err := b.keeper.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := b.keeper.Stats(); st.AnsweredFirst != 1 || st.AnsweredFirstLost != 1 {
		t.Errorf("counted %+v", st)
	}
	b.keeper.breakWith(nil)
	b.keeper.clock.Advance(time.Minute)
	b.mustRefund(t, true)
	b.mustRefund(t, true)
}

func TestAMethodThatHoldsIsSettledBeforeItIsAnswered(t *testing.T) {
	b := answeringFirst(t, nil) // its own annotation has hold
	b.mustRefund(t, false)
	if st := b.keeper.Stats(); st.AnsweredFirst != 0 {
		t.Errorf("counted %+v, want none answered first", st)
	}
}

func TestToAnswerFirstTakesReceipts(t *testing.T) {
	_, err := grpcguard.New(startKeeper(t).Client, grpcguard.Config{Tenant: tenant, AnswerFirst: true})
	if err == nil || !strings.Contains(err.Error(), "Config.Receipts") {
		t.Errorf("New = %v, want that Config.Receipts are needed", err)
	}
}
