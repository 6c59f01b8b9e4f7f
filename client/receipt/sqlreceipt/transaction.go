package sqlreceipt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// rollbackTime bounds a ROLLBACK; past it the driver is told to give up.
const rollbackTime = 5 * time.Second

// transaction is one on a connection of its own.
type transaction struct {
	querier
	conn *sql.Conn
	tx   *sql.Tx
	// end is the end of the context that the driver has for the transaction.
	end      context.CancelFunc
	patience time.Duration
}

// beginner begins transactions that the caller's context does not end: database/sql
// would roll back by itself, and nobody would know when.
func beginner(c Config) func(context.Context) (transact.Transaction[*sql.Tx], error) {
	options := &sql.TxOptions{Isolation: c.Isolation}
	return func(ctx context.Context) (transact.Transaction[*sql.Tx], error) {
		conn, err := c.DB.Conn(ctx)
		if err != nil {
			return nil, &transact.NotConnected{Err: err}
		}
		own, end := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, end)
		tx, err := conn.BeginTx(own, options)
		if !stop() && err == nil {
			_ = tx.Rollback()
			err = context.Cause(ctx)
		}
		if err != nil {
			end()
			_ = conn.Close()
			return nil, err
		}
		return &transaction{querier: querier{tx}, conn: conn, tx: tx, end: end, patience: c.Patience}, nil
	}
}

func (t *transaction) Tx() *sql.Tx { return t.tx }

func (t *transaction) Commit() error {
	done := make(chan error, 1)
	go func() { // ends with the driver's call, which no context ends
		err := t.tx.Commit()
		t.end()
		_ = t.conn.Close()
		done <- err
	}()
	wait := time.NewTimer(t.patience)
	defer wait.Stop()
	select {
	case err := <-done:
		return ended(err)
	case <-wait.C:
		return fmt.Errorf("the commit was not answered in %v", t.patience)
	}
}

func (t *transaction) Rollback() error {
	late := time.AfterFunc(rollbackTime, t.end)
	defer late.Stop()
	err := ended(t.tx.Rollback())
	t.end()
	_ = t.conn.Close()
	return err
}

func ended(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return transact.ErrEnded
	}
	return err
}

// querier is a database, or a transaction, as package table speaks to it.
type querier struct {
	on interface {
		ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
	}
}

func (q querier) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	res, err := q.on.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (q querier) QueryRow(ctx context.Context, statement string, args ...any) table.Scanner {
	return q.on.QueryRowContext(ctx, statement, args...)
}

func (q querier) Query(ctx context.Context, scan func(table.Scanner) error, statement string, args ...any) error {
	rows, err := q.on.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
