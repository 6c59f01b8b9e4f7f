package sqlreceipt

import (
	"context"
	"database/sql"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// InTx runs fn in a transaction that also writes the receipt of the attempt that
// ctx is of, so that what fn changes with tx happens once. Outside an attempt it is
// a plain transaction with no receipt.
//
// InTx owns the transaction: it commits where fn gives nil, and rolls back where it
// gives an error, panics or ends its goroutine. fn must not call tx.Commit or
// tx.Rollback, nor send such a statement: InTx then gives an error that is not
// marked, and where fn had it committed the key is receipt.ErrInDoubt from then on,
// since its response was not. fn is run again, in a new transaction, after a
// serialization failure, a deadlock or SQLITE_BUSY, where its error wraps the
// database's; so whatever it does beside tx may happen more than once.
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
// tells nothing. A commit that is not answered in time is left to its driver, with
// its connection, which the pool misses until the driver gives it up.
func InTx[T any](ctx context.Context, store *Store, fn func(ctx context.Context, tx *sql.Tx) (T, error)) (T, error) {
	return transact.Run(ctx, &store.database, fn)
}
