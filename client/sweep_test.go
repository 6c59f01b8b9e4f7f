package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

func swept(n int) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "acme", Operation: "pay", ID: fmt.Sprintf("k%02d", n)}
}

// newSwept is a shop with n old receipts, of which every third has a record, and every second is a floor.
func newSwept(t *testing.T, n int) *shop {
	t.Helper()
	s := newShop(t, client.WithRetryBudget(0, 0))
	for i := range n {
		r := applied(1)
		r.Key = swept(i)
		if i%2 == 1 {
			r = receipt.Receipt{Key: swept(i), Floor: 7}
		}
		s.db.Put(r)
	}
	s.clock.Advance(2 * time.Hour)
	for i := 0; i < n; i += 3 {
		if _, err := s.keeper.Begin(t.Context(), client.BeginRequest{Key: swept(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *shop) left(n int) (left int) {
	for i := range n {
		if s.db.Row(swept(i)) != nil {
			left++
		}
	}
	return left
}

func TestASweepDeletesOldReceiptsThatTheServiceHasNoRecordOf(t *testing.T) {
	const n = 20
	s := newSwept(t, n)
	young := applied(1)
	young.Key.ID = "young"
	s.db.Put(young)
	got, err := client.SweepReceipts(t.Context(), s.keeper, s.db, client.SweepConfig{Horizon: time.Hour, Batch: 3})
	if err != nil || !got.Done || got.Deleted != 13 || got.Kept != 7 {
		t.Errorf("swept %+v, %v; want 13 deleted and 7 kept", got, err)
	}
	for i := range n {
		if kept := s.db.Row(swept(i)) != nil; kept != (i%3 == 0) {
			t.Errorf("receipt %d: kept is %v", i, kept)
		}
	}
	if s.db.Row(young.Key) == nil {
		t.Error("a young receipt was deleted")
	}
}

func TestASweepKeepsWhatIsInDoubt(t *testing.T) {
	s := newShop(t)
	s.db.Put(receipt.Receipt{Key: key, Token: 1, InDoubt: true})
	s.clock.Advance(2 * time.Hour)
	got, err := client.SweepReceipts(t.Context(), s.keeper, s.db, client.SweepConfig{Horizon: time.Hour})
	if err != nil || !got.Done || got.Deleted != 0 || got.Kept != 1 {
		t.Errorf("swept %+v, %v; want it kept", got, err)
	}
	if _, err := s.do(t.Context(), s.pay); err == nil {
		t.Error("what nobody has looked at was paid")
	}
	s.mustHave(0)
}

func TestASweepGoesOnWhereItWasEnded(t *testing.T) {
	const n = 20
	s := newSwept(t, n)
	cfg := client.SweepConfig{Horizon: time.Hour, Batch: 3, Limit: 7}
	looked := 0
	for round := 0; ; round++ {
		got, err := client.SweepReceipts(t.Context(), s.keeper, s.db, cfg)
		if err != nil || round > n {
			t.Fatalf("round %d: %+v, %v", round, got, err)
		}
		looked += got.Deleted + got.Kept
		if got.Deleted+got.Kept > cfg.Limit {
			t.Errorf("looked at %+v, more than the limit", got)
		}
		if cfg.After = got.Next; got.Done {
			break
		}
	}
	if left := s.left(n); looked != n || left != 7 {
		t.Errorf("looked at %d receipts, and left %d; want %d and 7", looked, left, n)
	}
}

func TestASweepDeletesNothingOnAnError(t *testing.T) {
	const n = 9
	s := newSwept(t, n)
	s.between = func(context.Context, string, func(context.Context) error) error { return errCut }
	got, err := client.SweepReceipts(t.Context(), s.keeper, s.db, client.SweepConfig{Horizon: time.Hour})
	if !errors.Is(err, client.ErrUnavailable) || got.Done || got.Deleted != 0 || s.left(n) != n {
		t.Errorf("swept %+v, %v, and %d are left", got, err, s.left(n))
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if got, err := client.SweepReceipts(ctx, s.keeper, s.db, client.SweepConfig{}); !errors.Is(err, context.Canceled) || got.Done {
		t.Errorf("swept %+v, %v; want context.Canceled", got, err)
	}
	if _, err := client.SweepReceipts(t.Context(), s.keeper, s.db, client.SweepConfig{Horizon: time.Minute}); !errors.Is(err, oncekeeper.ErrInvalidRequest) {
		t.Errorf("a horizon of a minute: %v, want ErrInvalidRequest", err)
	}
}
