package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// lockKey is any number that no other program is likely to take.
const lockKey = 0x6f6e63656b656570

// retryLock is how often one who waits for the lock asks again. It holds no
// connection meanwhile, which the one who works may need.
const retryLock = 200 * time.Millisecond

// transactionLock is an advisory lock of a transaction that stays open meanwhile:
// it ends with the connection, whatever becomes of the process.
type transactionLock struct{ tx *sql.Tx }

// Lock implements lock.Locker.
func (l *transactionLock) Lock(ctx context.Context, db *sql.DB) error {
	for {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("locking the schema: %w", err)
		}
		var got bool
		if err := tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(lockKey)).Scan(&got); err != nil {
			return errors.Join(fmt.Errorf("locking the schema: %w", err), tx.Rollback())
		}
		if got {
			l.tx = tx
			return nil
		}
		if err := tx.Rollback(); err != nil {
			return fmt.Errorf("waiting for the schema's lock: %w", err)
		}
		select {
		case <-time.After(retryLock):
		case <-ctx.Done():
			return fmt.Errorf("waiting for another migration: %w", context.Cause(ctx))
		}
	}
}

// Unlock implements lock.Locker.
func (l *transactionLock) Unlock(context.Context, *sql.DB) error {
	if err := l.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("unlocking the schema: %w", err)
	}
	return nil
}
