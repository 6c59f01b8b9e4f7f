package receipttest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

var errFunction = errors.New("the function refuses")

func testFunctions(t *testing.T, b Backend) {
	tryAll(t, func(t *testing.T) Database { return b.Open(t, "") }, []check{
		{"an error rolls back, is given as it is, and leaves the attempt free to try again", func(h *hands) {
			ctx, p := h.attempt(claimOf("k", 1))
			_, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
				return "lost", errors.Join(tx.Effect(ctx, "k"), oncekeeper.Final(errFunction))
			})
			h.wantGone(err, errFunction)
			if oncekeeper.SettlementOf(err) != oncekeeper.SettledFinal {
				h.Errorf("the function's own mark is lost from %v", err)
			}
			h.wantNothing("k")
			h.wantApplied(p, none)
			got, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) { return "second", tx.Effect(ctx, "k") })
			h.wantAnswer(got, err, "second")
			h.wantEffects("k", 1)
		}},
		{"a panic rolls back and goes on up", func(h *hands) {
			h.leaves(func() { panic("no") }, "no")
		}},
		{"a Goexit rolls back and goes on up", func(h *hands) {
			h.leaves(runtime.Goexit, nil)
		}},
		{"a value that cannot be kept is rolled back before anything is committed", func(h *hands) {
			_, err, p := h.apply(claimOf("k", 1), unencodable)
			h.wantGone(err, errUnencodable)
			h.wantNothing("k")
			h.wantApplied(p, none)
		}},
		{"an error of the database rolls back", func(h *hands) {
			ctx, _ := h.attempt(claimOf("k", 1))
			_, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
				if err := tx.Effect(ctx, "k"); err != nil {
					return "", err
				}
				return "lost", tx.Fail(ctx)
			})
			if err == nil || !oncekeeper.IsRolledBack(err) {
				h.Errorf("the error is %v, want one that is marked as rolled back", err)
			}
			h.wantNothing("k")
		}},
		{"a second call in one attempt is refused", func(h *hands) {
			ctx, p := h.attempt(claimOf("k", 1))
			effect := func(ctx context.Context, tx Tx) (string, error) { return "first", tx.Effect(ctx, "k") }
			got, err := h.InTx(ctx, effect)
			h.wantAnswer(got, err, "first")
			_, err = h.InTx(ctx, effect)
			h.want(err, receipt.ErrTwice)
			if oncekeeper.IsRolledBack(err) {
				h.Errorf("%v is marked as rolled back, and the first call was applied", err)
			}
			h.wantApplied(p, "first")
			h.wantEffects("k", 1)
		}},
		{"a call within another of the same attempt is refused", func(h *hands) {
			ctx, _ := h.attempt(claimOf("k", 1))
			got, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
				_, err := h.InTx(ctx, func(context.Context, Tx) (string, error) { return "inner", nil })
				h.want(err, receipt.ErrTwice)
				return "outer", tx.Effect(ctx, "k")
			})
			h.wantAnswer(got, err, "outer")
		}},
		{"outside an attempt it is a transaction with no receipt", func(h *hands) {
			for range 2 {
				got, err := h.InTx(h.ctx, func(ctx context.Context, tx Tx) (string, error) { return unencodable, tx.Effect(ctx, "k") })
				h.wantAnswer(got, err, unencodable)
			}
			_, err := h.InTx(h.ctx, func(ctx context.Context, tx Tx) (string, error) {
				return "", errors.Join(tx.Effect(ctx, "k"), errFunction)
			})
			h.wantGone(err, errFunction)
			h.wantEffects("k", 2)
			h.wantReceipt(keyOf("k"), nil)
		}},
		{"a context that has ended changes nothing", func(h *hands) {
			ctx, cancel := context.WithCancel(h.ctx)
			cancel()
			p := &receipt.Permit{Claim: claimOf("k", 1), Codec: Text{}}
			_, err := h.InTx(receipt.WithPermit(ctx, p), func(context.Context, Tx) (string, error) {
				h.Error("the function was run")
				return "", nil
			})
			h.wantGone(err, context.Canceled)
		}},
		{"a context that ends in the function does not undo what it did", func(h *hands) {
			ctx, cancel := context.WithCancel(h.ctx)
			p := &receipt.Permit{Claim: claimOf("k", 1), Codec: Text{}}
			got, err := h.InTx(receipt.WithPermit(ctx, p), func(ctx context.Context, tx Tx) (string, error) {
				err := tx.Effect(ctx, "k")
				cancel()
				return "done", err
			})
			h.wantAnswer(got, err, "done")
			h.wantEffects("k", 1)
		}},
		{"a transaction that the function committed is in doubt, and nothing runs under its key", func(h *hands) {
			_, err, p := h.byHand(claimOf("k", 1), true, errFunction)
			if err == nil || oncekeeper.IsRolledBack(err) {
				h.Errorf("the error is %v, want one that is not marked", err)
			}
			h.wantApplied(p, none)
			for range 2 {
				_, err, _ = h.apply(claimOf("k", 2), "again")
				h.want(err, receipt.ErrInDoubt)
				if oncekeeper.IsRolledBack(err) {
					h.Errorf("%v is marked as rolled back, and the effect is there", err)
				}
				_, err = h.Look(h.ctx, keyOf("k"))
				h.want(err, receipt.ErrInDoubt)
				_, err = h.Close(h.ctx, claimOf("k", 2), 3)
				h.want(err, receipt.ErrInDoubt)
			}
			h.wantEffects("k", 1)
			rows, err := h.Old(h.ctx, time.Now().Add(time.Hour), oncekeeper.Key{}, 1)
			if err != nil || len(rows) != 1 || !rows[0].InDoubt || rows[0].Floor != 0 {
				h.Errorf("the row is %+v, %v, want it in doubt and not changed", rows, err)
			}
		}},
		{"a transaction that the function rolled back is not said to be", func(h *hands) {
			for _, gives := range []error{nil, errFunction} {
				_, err, p := h.byHand(claimOf("k", 1), false, gives)
				if err == nil || oncekeeper.IsRolledBack(err) {
					h.Errorf("the error is %v, want one that is not marked", err)
				}
				if p.Take() == nil {
					h.Error("the attempt may begin another transaction")
				}
			}
			h.wantEffects("k", 0)
		}},
	})
}

// byHand runs an attempt whose function ends its transaction, and gives what it is
// told.
func (h *hands) byHand(c receipt.Claim, commit bool, gives error) (string, error, *receipt.Permit) { //nolint:staticcheck // as apply
	ctx, p := h.attempt(c)
	got, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
		if err := errors.Join(tx.Effect(ctx, c.Key.ID), tx.End(commit)); err != nil {
			h.Errorf("the function could not end its transaction: %v", err)
		}
		return "by hand", gives
	})
	return got, err, p
}

// wantNothing wants no trace of the key.
func (h *hands) wantNothing(id string) {
	h.Helper()
	h.wantEffects(id, 0)
	h.wantReceipt(keyOf(id), nil)
}

// leaves runs an attempt whose function leaves without returning.
func (h *hands) leaves(leave func(), with any) {
	ctx, p := h.attempt(claimOf("k", 1))
	left := make(chan any)
	go func() {
		defer func() { left <- recover() }()
		_, err := h.InTx(ctx, func(ctx context.Context, tx Tx) (string, error) {
			if err := tx.Effect(ctx, "k"); err != nil {
				return "", err
			}
			leave()
			return "", nil
		})
		h.Errorf("InTx gave %v", err)
	}()
	if got := <-left; fmt.Sprint(got) != fmt.Sprint(with) {
		h.Errorf("%v came up, want %v", got, with)
	}
	h.wantNothing("k")
	if err := p.Take(); err != nil {
		h.Errorf("the attempt cannot try again: %v", err)
	}
}
