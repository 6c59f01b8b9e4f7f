package main

import (
	"errors"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

func newBank(t *testing.T) *bank {
	t.Helper()
	b, err := openBank(t.Context(), filepath.Join(t.TempDir(), "bank.db"), newTrouble())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close() })
	if err := b.openAccount(t.Context(), account, opening); err != nil {
		t.Fatal(err)
	}
	return b
}

func debit(number int) *paymentsv1.DebitRequest {
	return &paymentsv1.DebitRequest{RequestId: requestIDOf(number), Account: account, Amount: amount}
}

func (b *bank) mustHave(t *testing.T, balance int64, rows int) {
	t.Helper()
	left, err := b.balance(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := b.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	if left != balance || total != rows {
		t.Errorf("there is %d on the account after %d rows, want %d after %d", left, total, balance, rows)
	}
}

func TestAChargeIsOneRowAndItsAmount(t *testing.T) {
	b := newBank(t)
	made, err := b.charge(t.Context(), debit(1))
	if err != nil || made.GetName() != "debits/1" || made.GetBalance() != 990 {
		t.Fatalf("charge gives %v, %v; want debits/1 and 990", made, err)
	}
	b.mustHave(t, 990, 1)
	found, ok, err := b.find(t.Context(), requestIDOf(1))
	if err != nil || !ok || found.GetName() != "debits/1" {
		t.Errorf("find gives %v, %t, %v; want debits/1", found, ok, err)
	}
	if _, ok, err := b.find(t.Context(), requestIDOf(2)); ok || err != nil {
		t.Errorf("find gives %t, %v for a debit that was not made", ok, err)
	}
}

// What the guarded way tells the guard rests on this.
func TestAFailureSaysWhetherItLeftNothing(t *testing.T) {
	b := newBank(t)
	for range 2 {
		_, err := b.charge(t.Context(), debit(failEvery))
		if !errors.Is(err, errRolledBack) || status.Code(err) != codes.Unavailable {
			t.Errorf("a failure before the commit is %v, want UNAVAILABLE and rolled back", err)
		}
	}
	b.mustHave(t, opening, 0)
	_, err := b.charge(t.Context(), &paymentsv1.DebitRequest{RequestId: requestIDOf(1), Account: "accounts/none", Amount: amount})
	if !errors.Is(err, errRolledBack) || status.Code(err) != codes.NotFound {
		t.Errorf("a charge to no account is %v, want NOT_FOUND and rolled back", err)
	}
	_, err = b.charge(t.Context(), debit(silentEvery))
	if err == nil || errors.Is(err, errRolledBack) || status.Code(err) != codes.Unavailable {
		t.Errorf("a commit that is not heard of is %v, want UNAVAILABLE and not rolled back", err)
	}
	b.mustHave(t, 990, 1)
}

func TestARequestIsRecordedOnce(t *testing.T) {
	b := newBank(t)
	for n, want := range []bool{true, false, false} {
		if first, err := b.record(t.Context(), requestIDOf(1)); first != want || err != nil {
			t.Errorf("recording it time %d says first = %t, %v; want %t", n+1, first, err, want)
		}
	}
}
