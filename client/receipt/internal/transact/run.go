package transact

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
)

// Run runs fn in a transaction of db, with the receipt that the permit in ctx is
// for; without one, in a plain transaction. What it promises its callers is written
// down at each driver's InTx.
func Run[T, Tx any](ctx context.Context, db *Database[Tx], fn func(context.Context, Tx) (T, error)) (T, error) {
	r := run[T, Tx]{db: db, fn: fn, permit: receipt.PermitFrom(ctx)}
	if r.permit == nil {
		res := r.retried(ctx)
		return res.value, res.err
	}
	if err := r.permit.Take(); err != nil {
		var none T
		return none, err
	}
	res := result[T]{gone: true} // what a panic or a Goexit of fn leaves
	defer func() {
		if res.gone && !r.byHand {
			r.permit.Return()
		}
	}()
	res = r.retried(ctx)
	return res.value, res.err
}

type run[T, Tx any] struct {
	db     *Database[Tx]
	fn     func(context.Context, Tx) (T, error)
	permit *receipt.Permit
	// byHand: fn ended the transaction, and then itself.
	byHand bool
}

// result is how one transaction ended.
type result[T any] struct {
	value T
	err   error
	// gone: it is known to have left nothing.
	gone bool
	// again: another may work; counts: it is one of maxTries.
	again, counts bool
}

func rolledBack[T any](err error) result[T] {
	return result[T]{err: oncekeeper.RolledBack(err), gone: true}
}

func (r *run[T, Tx]) retried(ctx context.Context) result[T] {
	for try, counted := 1, 0; ; try++ {
		res := r.once(ctx)
		if res.counts {
			counted++
		}
		if !res.again {
			return res
		}
		if counted == maxTries {
			return rolledBack[T](fmt.Errorf("after %d tries: %w", counted, res.err))
		}
		if ended := pause(ctx, try, res.err); ended != nil {
			return rolledBack[T](ended)
		}
	}
}

func (r *run[T, Tx]) once(ctx context.Context) result[T] {
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return r.notRun(ctx, err)
	}
	open := true
	defer func() {
		if open {
			r.byHand = errors.Is(tx.Rollback(), ErrEnded)
		}
	}()
	if r.permit != nil {
		taken, row, err := r.db.Table.Claim(ctx, tx, r.permit.Claim)
		if err != nil || !taken {
			open = false
			_ = tx.Rollback()
		}
		switch {
		case err != nil:
			return r.notRun(ctx, err)
		case !taken:
			return r.blocked(row)
		}
	}
	value, err := r.fn(ctx, tx.Tx())
	var kept *oncekeeper.Response
	var encoded []byte
	if err == nil && r.permit != nil {
		kept, encoded, err = r.write(ctx, tx, value)
	}
	open = false
	if err != nil {
		if errors.Is(tx.Rollback(), ErrEnded) {
			return result[T]{err: fmt.Errorf("%w: %w", ErrEnded, err)}
		}
		return r.failed(err, r.db.fate(err, false))
	}
	if err := tx.Commit(); err != nil {
		return r.notCommitted(ctx, err, value, kept, encoded)
	}
	if r.permit != nil {
		r.permit.SetApplied(kept)
	}
	return result[T]{value: value}
}

// write puts the answer into the receipt. fn has ended, so its context no longer
// counts.
func (r *run[T, Tx]) write(ctx context.Context, tx Transaction[Tx], value T) (*oncekeeper.Response, []byte, error) {
	kept, err := r.permit.Codec.Encode(value)
	if err == nil && kept == nil {
		err = errors.New("receipt: the codec gave no response")
	}
	if err != nil {
		return nil, nil, err
	}
	encoded, err := table.Encode(kept)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.db.Patience)
	defer cancel()
	return kept, encoded, r.db.Table.Apply(ctx, tx, r.permit.Claim, encoded)
}

// notRun is what became of a transaction in which fn was not run.
func (r *run[T, Tx]) notRun(ctx context.Context, err error) result[T] {
	fate := r.db.fate(err, false)
	res := rolledBack[T](r.db.Explain(ctx, err))
	res.again, res.counts = fate != Refused, fate != Busy
	return res
}

// failed is what became of a transaction in which fn was run, and which left
// nothing.
func (r *run[T, Tx]) failed(err error, fate Fate) result[T] {
	res := rolledBack[T](err)
	res.again, res.counts = fate == Collided || fate == Busy, true
	return res
}

// blocked is what becomes of a claim that row was in the way of.
func (r *run[T, Tx]) blocked(row *receipt.Receipt) result[T] {
	applied, err := receipt.Claimed(row, r.permit.Claim)
	var res result[T]
	switch {
	case errors.Is(err, receipt.ErrInDoubt):
		// Nothing of this attempt is left, and an effect of one before may be.
		return result[T]{err: err, gone: true}
	case err != nil:
		return rolledBack[T](err)
	case !applied: // what was in the way is gone
		return result[T]{err: errors.New("receipt: the row of the key changes all the time"), gone: true, again: true, counts: true}
	}
	r.permit.SetApplied(row.Response)
	if err := r.permit.Codec.Decode(row.Response, &res.value); err != nil {
		var none T
		res.value, res.err = none, fmt.Errorf("receipt: it was applied before, and its response: %w", err)
	}
	return res
}
