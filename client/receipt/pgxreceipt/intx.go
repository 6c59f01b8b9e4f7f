package pgxreceipt

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// InTx runs fn in a transaction that also writes the receipt of the attempt that
// ctx is of, so that what fn changes with tx happens once. Outside an attempt it is
// a plain transaction with no receipt.
//
// InTx owns the transaction: it commits where fn gives nil, and rolls back where it
// gives an error, panics or ends its goroutine; tx refuses Commit and Rollback
// (nested ones are fn's own). fn is run again, in a new transaction, after a
// serialization failure or a deadlock, where its error wraps Postgres's; so
// whatever it does beside tx may happen more than once.
//
// It gives what fn gave, once that is committed; or
//   - where the operation was applied before, what was kept then, without running fn;
//   - oncekeeper.ErrFenced where a later attempt has the key,
//     oncekeeper.ErrFingerprintMismatch where the receipt is of another request,
//     receipt.ErrTwice in an attempt that has called InTx before, unless that call is
//     known to have left nothing, receipt.ErrInDoubt and receipt.ErrNoTable;
//   - the error of fn, of the guard's codec, or of the database.
//
// Where the transaction is known to have left nothing the error is
// oncekeeper.IsRolledBack. Where a commit's answer is lost it is looked for, within
// Config.Patience, even when ctx has ended: the error is unmarked only where that
// tells nothing. No statement that may commit is asked to be cancelled, so a commit
// that waits for a standby stays one.
func InTx[T any](ctx context.Context, store *Store, fn func(ctx context.Context, tx pgx.Tx) (T, error)) (T, error) {
	return transact.Run(ctx, &store.database, fn)
}
