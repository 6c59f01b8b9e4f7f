package pgxreceipt

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// owned is the transaction as the function sees it, or a nested one of it: refused
// to be ended, and of no use once it is over, when its connection is another's.
type owned struct {
	tx     pgx.Tx
	over   *atomic.Bool
	nested bool
}

func (o *owned) ending() error {
	switch {
	case o.over.Load():
		return pgx.ErrTxClosed
	case !o.nested:
		return transact.ErrOwned
	default:
		return nil
	}
}

func (o *owned) Begin(ctx context.Context) (pgx.Tx, error) {
	if o.over.Load() {
		return nil, pgx.ErrTxClosed
	}
	tx, err := o.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &owned{tx: tx, over: o.over, nested: true}, nil
}

func (o *owned) Commit(ctx context.Context) error {
	if err := o.ending(); err != nil {
		return err
	}
	return o.tx.Commit(ctx)
}

func (o *owned) Rollback(ctx context.Context) error {
	if err := o.ending(); err != nil {
		return err
	}
	return o.tx.Rollback(ctx)
}

func (o *owned) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if o.over.Load() {
		return 0, pgx.ErrTxClosed
	}
	return o.tx.CopyFrom(ctx, table, columns, rows)
}

func (o *owned) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if o.over.Load() {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return o.tx.SendBatch(ctx, b)
}

// LargeObjects is pgx's: what it gives must not outlive the function.
func (o *owned) LargeObjects() pgx.LargeObjects { return o.tx.LargeObjects() }

func (o *owned) Prepare(ctx context.Context, name, statement string) (*pgconn.StatementDescription, error) {
	if o.over.Load() {
		return nil, pgx.ErrTxClosed
	}
	return o.tx.Prepare(ctx, name, statement)
}

func (o *owned) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	if o.over.Load() {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return o.tx.Exec(ctx, statement, args...)
}

func (o *owned) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	if o.over.Load() {
		return nil, pgx.ErrTxClosed
	}
	return o.tx.Query(ctx, statement, args...)
}

func (o *owned) QueryRow(ctx context.Context, statement string, args ...any) pgx.Row {
	if o.over.Load() {
		return closedRow{}
	}
	return o.tx.QueryRow(ctx, statement, args...)
}

// Conn is pgx's: to end the transaction on it, or to use it after, breaks what InTx
// promises.
func (o *owned) Conn() *pgx.Conn { return o.tx.Conn() }

type closedRow struct{}

func (closedRow) Scan(...any) error { return pgx.ErrTxClosed }
