package httpguard_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

// The process dies after its answer and before its Complete.
func TestAChargeThatIsAnsweredFirstIsFoundByItsReceiptThoughItIsNeverSettled(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	k.connect(client.WithSettleTimeout(time.Second), client.WithRetryBudget(0, 0))
	g := serve(t, k, httpguard.Config{Receipts: l.Store, AnswerFirst: true, Wait: -1}, l.handle)
	reached, die := make(chan struct{}), make(chan struct{})
	var once sync.Once
	k.breakWith(func(method string) error {
		if method != "Complete" {
			return nil
		}
		once.Do(func() { close(reached) })
		<-die
		return status.Error(codes.PermissionDenied, "the process is no more")
	})
	first := g.charge(t, "k")
	wantCharged(t, first, true)
	<-reached // and it is not answered
	mustBe(t, g.charge(t, "k"), 409)
	close(die)
	if err := k.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.breakWith(nil)
	k.Clock.Advance(time.Hour)
	got := g.charge(t, "k")
	wantCharged(t, got, false)
	if !got.replayed() || got.body != first.body || l.charges(t) != 1 || g.runs() != 1 {
		t.Errorf("a replay: %t, after %d charges and %d runs", got.replayed(), l.charges(t), g.runs())
	}
	if st := k.Stats(); st.AnsweredFirst != 1 || st.AnsweredFirstLost != 1 {
		t.Errorf("counted %+v", st)
	}
}

func TestAnOperationThatHoldsIsSettledBeforeItIsAnswered(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store, AnswerFirst: true}, l.handle, httpguard.WithHold())
	wantCharged(t, g.charge(t, "k"), true)
	if st := k.Stats(); st.AnsweredFirst != 0 {
		t.Errorf("counted %+v, want none answered first", st)
	}
}

func TestToAnswerFirstTakesReceipts(t *testing.T) {
	_, err := httpguard.New(startKeeper(t).Client, httpguard.Config{Tenant: acme, AnswerFirst: true})
	if err == nil || !strings.Contains(err.Error(), "Config.Receipts") {
		t.Errorf("New = %v, want that Config.Receipts are needed", err)
	}
}
