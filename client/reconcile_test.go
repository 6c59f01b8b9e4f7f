package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// asked is a reconciler that says what it is told to, and what it was asked.
type asked struct {
	found     client.Finding
	value     string
	err       error
	questions []client.Question
	during    func()
}

func (a *asked) option() client.DoOption {
	return client.WithReconcile(func(_ context.Context, q client.Question) (client.Finding, string, error) {
		a.questions = append(a.questions, q)
		if a.during != nil {
			a.during()
		}
		return a.found, a.value, a.err
	})
}

// newUnknown is a shop whose key has an attempt that was never heard of again.
func newUnknown(t *testing.T, hold bool) (*shop, int64) {
	t.Helper()
	s := newShop(t)
	token := s.begin(hold)
	s.clock.Advance(fakeLease)
	return s, token
}

func TestAReconcilerThatKnowsWhatHappenedIsTheAnswer(t *testing.T) {
	for _, hold := range []bool{false, true} {
		s, token := newUnknown(t, hold)
		a := &asked{found: client.Happened, value: "charged"}
		for range 2 {
			if got, err := s.do(t.Context(), neverPay(t), a.option()); got != "charged" || err != nil {
				t.Errorf("hold %v: Do = %q, %v", hold, got, err)
			}
		}
		rec := s.mustBe(oncekeeper.StoredCompleted)
		if len(a.questions) != 1 || a.questions[0].Held != hold || a.questions[0].Token != rec.Token || hold != (rec.Token == token) {
			t.Errorf("hold %v: asked %+v; the record is %+v", hold, a.questions, rec)
		}
		if row := s.db.Row(key); row.Applied() || row.Floor != rec.Token+1 {
			t.Errorf("hold %v: the receipt is %+v, want a floor above what was completed", hold, row)
		}
	}
}

func TestWhatDidNotHappenRuns(t *testing.T) {
	for _, hold := range []bool{false, true} {
		s, token := newUnknown(t, hold)
		a := &asked{found: client.DidNotHappen}
		s.mustPay(a.option())
		if rec := s.mustBe(oncekeeper.StoredCompleted); rec.Token == token || len(a.questions) != 1 {
			t.Errorf("hold %v: asked %+v; the record is %+v", hold, a.questions, rec)
		}
	}
}

func TestAReconcilerThatCannotTellKeepsTheOperationFromRunning(t *testing.T) {
	for name, a := range map[string]*asked{
		"it cannot":         {found: client.CannotTell},
		"it fails":          {found: client.DidNotHappen, err: errors.New("the provider is down")},
		"it makes no sense": {found: 9},
	} {
		s, _ := newUnknown(t, false)
		if _, err := s.do(t.Context(), neverPay(t), a.option()); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%s: Do = %v, want ErrUnavailable", name, err)
		}
		if rec := s.mustBe(oncekeeper.StoredPending); rec.Last != oncekeeper.SettledUnknown {
			t.Errorf("%s: the record is %+v, want an unknown outcome", name, rec)
		}
		held, _ := newUnknown(t, true)
		if _, err := held.do(t.Context(), neverPay(t), a.option()); !errors.Is(err, oncekeeper.ErrUnresolved) {
			t.Errorf("%s, and the key is held: Do = %v, want ErrUnresolved", name, err)
		}
	}
}

func TestAReconcilerIsNotAskedWhereTheReceiptKnows(t *testing.T) {
	for _, hold := range []bool{false, true} {
		s, token := newUnknown(t, hold)
		s.db.Put(applied(token))
		a := &asked{found: client.DidNotHappen}
		s.mustPay(a.option())
		if len(a.questions) != 0 {
			t.Errorf("hold %v: asked %+v", hold, a.questions)
		}
	}
}

func TestAFirstAttemptIsNotReconciled(t *testing.T) {
	s := newShop(t)
	a := &asked{found: client.Happened, value: "charged"}
	s.mustPay(a.option())
}

// The attempt that is asked about commits while it is asked about.
func TestWhatAReconcilerSaysYieldsToTheReceipt(t *testing.T) {
	for _, found := range []client.Finding{client.Happened, client.DidNotHappen} {
		for _, hold := range []bool{false, true} {
			s, token := newUnknown(t, hold)
			a := &asked{found: found, value: "charged"}
			a.during = func() { s.db.Put(applied(token)) }
			s.mustPay(a.option())
			s.mustBe(oncekeeper.StoredCompleted)
		}
	}
}

func TestAReconcilerThatTakesTooLongCannotTell(t *testing.T) {
	const limit = 77 * time.Second
	s := newShop(t, client.WithReconcileTimeout(limit))
	s.begin(false)
	s.clock.Advance(fakeLease)
	started := make(chan struct{})
	slow := client.WithReconcile(func(ctx context.Context, _ client.Question) (client.Finding, string, error) {
		close(started)
		<-ctx.Done()
		return client.CannotTell, "", context.Cause(ctx)
	})
	done := background(func() error {
		_, err := s.do(t.Context(), neverPay(t), slow)
		return err
	})
	recv(t, started, "the question")
	renewals := s.seen("Renew")
	for waited := time.Duration(0); waited < limit; waited += fakeLease / 3 {
		s.clock.pass(t, fakeLease/3, fakeLease/3) // the lease is kept meanwhile
	}
	if err := recv(t, done, "Do's return"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
	if s.seen("Renew") == renewals {
		t.Error("the lease was not kept")
	}
}

func TestReceiptsTellWhereTheWholeEffectIsInTheTransaction(t *testing.T) {
	for _, hold := range []bool{false, true} {
		s, token := newUnknown(t, hold)
		s.mustPay(client.WithReconcile(client.ReceiptsTell), client.WithHold())
		if row := s.db.Row(key); row.Token <= token {
			t.Errorf("hold %v: applied by token %d, want one above %d", hold, row.Token, token)
		}
	}
}

// It says so of a key whose attempts are used up, and which therefore stays held.
func TestAKeyThatStaysHeldIsAskedAboutOnce(t *testing.T) {
	s := newShop(t)
	s.attempts = 1
	s.begin(false)
	s.clock.Advance(fakeLease)
	a := &asked{found: client.DidNotHappen}
	_, err := s.do(t.Context(), neverPay(t), a.option())
	if len(a.questions) != 1 || err == nil {
		t.Errorf("Do = %v after %d questions", err, len(a.questions))
	}
}

func TestAPanicOfAReconcilerLeavesTheOutcomeUnknown(t *testing.T) {
	s, _ := newUnknown(t, false)
	a := &asked{during: func() { panic("reconciler") }}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = s.do(t.Context(), neverPay(t), a.option())
	}()
	if rec := s.mustBe(oncekeeper.StoredPending); rec.Last != oncekeeper.SettledUnknown {
		t.Errorf("the record is %+v, want an unknown outcome", rec)
	}
}
