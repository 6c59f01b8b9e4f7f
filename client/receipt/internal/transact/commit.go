package transact

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
)

// notCommitted is what became of a transaction whose commit gave err.
func (r *run[T, Tx]) notCommitted(ctx context.Context, err error, value T, kept *oncekeeper.Response, encoded []byte) result[T] {
	fate := r.db.fate(err, true)
	switch {
	case errors.Is(err, ErrEnded):
		return result[T]{err: err}
	case fate != Lost:
		return r.failed(err, fate)
	case r.permit == nil:
		return result[T]{err: fmt.Errorf("%w: %w", ErrUnknown, err)}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.db.Patience)
	defer cancel()
	for try := 1; ; try++ {
		taken, row, looking := r.look(ctx)
		switch {
		case taken:
			return rolledBack[T](fmt.Errorf("receipt: the transaction was not committed: %w", err))
		case looking == nil && holds(row, encoded):
			r.permit.SetApplied(kept)
			return result[T]{value: value}
		case looking == nil:
			if res := r.blocked(row); !res.again {
				return res
			}
		}
		refused := looking != nil && ctx.Err() == nil && r.db.Fate(looking, false) == Refused
		if refused || pause(ctx, try, err) != nil {
			return result[T]{err: fmt.Errorf("%w: %w (looking for it: %v)", ErrUnknown, err, looking)}
		}
	}
}

// look claims the key once more, and leaves it. That waits for the transaction that
// was lost, where it is still being committed; and where it takes the key, that
// transaction is over and left nothing, since it held the key itself.
func (r *run[T, Tx]) look(ctx context.Context) (taken bool, row *receipt.Receipt, err error) {
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return false, nil, err
	}
	taken, row, err = r.db.Table.Claim(ctx, tx, r.permit.Claim)
	_ = tx.Rollback()
	return taken, row, err
}

// holds says whether row is applied with that very response.
func holds(row *receipt.Receipt, encoded []byte) bool {
	if !row.Applied() {
		return false
	}
	there, err := table.Encode(row.Response)
	return err == nil && bytes.Equal(there, encoded)
}

// Close is receipt.Store's Close, in a transaction of db.
func Close[Tx any](ctx context.Context, db *Database[Tx], c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	for try, counted := 1, 0; ; try++ {
		row, err := closeOnce(ctx, db, c, floor)
		fate := Refused
		if err != nil {
			fate = db.fate(err, false)
		}
		if fate != Busy {
			counted++
		}
		if fate == Refused || counted == maxTries {
			return row, err
		}
		if ended := pause(ctx, try, err); ended != nil {
			return nil, ended
		}
	}
}

func closeOnce[Tx any](ctx context.Context, db *Database[Tx], c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	row, err := db.Table.Close(ctx, tx, c, floor)
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return row, nil
}
