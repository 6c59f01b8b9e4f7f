package client_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// newOutage is a shop whose service is away.
func newOutage(t *testing.T) *shop {
	t.Helper()
	s := newShop(t, client.WithRetryBudget(0, 0))
	s.between = func(context.Context, string, func(context.Context) error) error { return errCut }
	return s
}

func (s *shop) backAgain() { s.between = nil }

var receiptsOnly = client.WithOutage(client.OutageReceiptsOnly)

func TestInAnOutageNothingRunsUnlessItIsToldTo(t *testing.T) {
	s := newOutage(t)
	if _, err := s.do(t.Context(), neverPay(t)); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
}

func TestInAnOutageTheReceiptKeepsItFromHappeningTwice(t *testing.T) {
	s := newOutage(t)
	for range 3 {
		s.mustPay(receiptsOnly)
	}
	if row := s.db.Row(key); row.Token != 0 {
		t.Errorf("the receipt is %+v, want token 0", row)
	}
	if st := s.keeper.Stats(); st.OutageReceipts != 1 {
		t.Errorf("counted %+v, want one run", st)
	}
	s.backAgain()
	got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
		if a.Token() == 0 || a.Takeover() || a.Outage() != client.OutageClosed {
			t.Errorf("the service is back, and the attempt is %+v", a)
		}
		return s.pay(ctx, a)
	})
	if got != "paid" || err != nil {
		t.Errorf("once it is back Do = %q, %v", got, err)
	}
	s.mustHave(1)
	s.mustBe(oncekeeper.StoredCompleted)
}

func TestInAnOutageAnAttemptKnowsThatNothingIsKnown(t *testing.T) {
	s := newOutage(t)
	got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
		if a.Token() != 0 || a.Number() != 0 || !a.Takeover() || a.Outage() != client.OutageReceiptsOnly {
			t.Errorf("the attempt is %+v", a)
		}
		if err := a.SaveCheckpoint(ctx, []byte("half")); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("SaveCheckpoint = %v, want ErrUnavailable", err)
		}
		return "nothing to pay", nil
	}, receiptsOnly)
	if got != "nothing to pay" || err != nil {
		t.Errorf("Do = %q, %v", got, err)
	}
	if s.db.Row(key) != nil || s.db.Steps("close") != 0 {
		t.Errorf("the receipt is %+v; nothing is closed in an outage", s.db.Row(key))
	}
}

func TestInAnOutageAClosedKeyWaitsForTheService(t *testing.T) {
	s := newOutage(t)
	s.db.Put(receipt.Receipt{Key: key, Floor: 8})
	if _, err := s.do(t.Context(), neverPay(t), receiptsOnly); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
	s.mustHave(0)
}

func TestInAnOutageReceiptsThatCannotBeAskedLetNothingRun(t *testing.T) {
	s := newOutage(t)
	s.db.OnStep(func(context.Context, string) error { return errors.New("the database is down") })
	if _, err := s.do(t.Context(), neverPay(t), receiptsOnly); !errors.Is(err, client.ErrReceipts) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrReceipts", err)
	}
}

func TestInAnOutageAnothersReceiptIsAMismatch(t *testing.T) {
	s := newOutage(t)
	s.db.Put(anothers())
	if _, err := s.do(t.Context(), neverPay(t), receiptsOnly); !errors.Is(err, oncekeeper.ErrFingerprintMismatch) {
		t.Errorf("Do = %v, want ErrFingerprintMismatch", err)
	}
}

func TestAnOpenOutageRunsUnguarded(t *testing.T) {
	s := newOutage(t)
	for n := range 2 {
		got, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
			if receipt.PermitFrom(ctx) != nil || a.Outage() != client.OutageOpen || a.Token() != 0 {
				t.Errorf("the attempt is %+v, with a permit: %v", a, receipt.PermitFrom(ctx) != nil)
			}
			return "paid", nil
		}, client.WithOutage(client.OutageOpen))
		if got != "paid" || err != nil {
			t.Errorf("call %d: Do = %q, %v", n, got, err)
		}
	}
	if st := s.keeper.Stats(); st.OutageOpen != 2 || st.OutageReceipts != 0 || st.Looked != 0 {
		t.Errorf("counted %+v", st)
	}
}

func TestARefusalOfTheServiceIsNoOutage(t *testing.T) {
	s := newShop(t)
	s.begin(false)
	for _, mode := range []client.Outage{client.OutageReceiptsOnly, client.OutageOpen} {
		if _, err := s.do(t.Context(), neverPay(t), client.WithOutage(mode)); !errors.Is(err, oncekeeper.ErrInProgress) {
			t.Errorf("%v: Do = %v, want ErrInProgress", mode, err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.do(ctx, neverPay(t), client.WithOutage(client.OutageOpen)); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want context.Canceled", err)
	}
}

func TestARequestThatContradictsItselfIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, opts := range map[string][]client.DoOption{
		"receipts only, without receipts": {receiptsOnly},
		"no outage mode":                  {client.WithOutage(9)},
		"another's reconciler": {client.WithReconcile(func(context.Context, client.Question) (client.Finding, int, error) {
			return client.CannotTell, 0, nil
		})},
	} {
		if _, err := client.Do(t.Context(), w.keeper, key, neverPay(t), opts...); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
	if n := w.seen("Begin"); n != 0 {
		t.Errorf("%d Begins", n)
	}
	if _, err := w.keeper.Run(t.Context(), client.Request{Key: key, Codec: codecOf("")}, nil); !errors.Is(err, oncekeeper.ErrInvalidRequest) {
		t.Errorf("a codec without receipts: %v, want ErrInvalidRequest", err)
	}
}

func TestATransactionThatTheFloorRefusedInAnOutageLeavesNothing(t *testing.T) {
	s := newOutage(t)
	_, err := s.do(t.Context(), func(ctx context.Context, a *client.Attempt) (string, error) {
		s.db.Put(receipt.Receipt{Key: key, Floor: 8}) // the service was there for another caller
		return s.pay(ctx, a)
	}, receiptsOnly)
	if !errors.Is(err, oncekeeper.ErrFenced) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrFenced, and ErrUnavailable: come back", err)
	}
	s.mustHave(0)
}

func TestAFailureInAnOutageIsGivenAndKeptNowhere(t *testing.T) {
	s := newOutage(t)
	if _, err := s.do(t.Context(), declined, receiptsOnly); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Do = %v, want what was declined", err)
	}
	s.mustPay(receiptsOnly)
}
