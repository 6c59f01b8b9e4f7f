package pgxreceipt

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// rollbackTime bounds a ROLLBACK; past it the connection is dropped instead.
const rollbackTime = 5 * time.Second

// transaction is one on a connection of its own.
type transaction struct {
	querier
	conn   *pgxpool.Conn
	tx     pgx.Tx
	over   *atomic.Bool
	commit committer
}

func beginner(c Config) func(context.Context) (transact.Transaction[pgx.Tx], error) {
	committer := committer{tracer: c.Pool.Config().ConnConfig.Tracer, patience: c.Patience}
	options := pgx.TxOptions{IsoLevel: c.Isolation, AccessMode: pgx.ReadWrite}
	return func(ctx context.Context) (transact.Transaction[pgx.Tx], error) {
		conn, err := c.Pool.Acquire(ctx)
		if err != nil {
			return nil, &transact.NotConnected{Err: err}
		}
		tx, err := conn.BeginTx(ctx, options)
		if err != nil {
			conn.Release()
			return nil, err
		}
		return &transaction{querier: querier{tx}, conn: conn, tx: tx, over: new(atomic.Bool), commit: committer}, nil
	}
}

func (t *transaction) Tx() pgx.Tx { return &owned{tx: t.tx, over: t.over} }

// endedByHand: the connection is in no transaction.
func (t *transaction) endedByHand() bool {
	conn := t.conn.Conn()
	return !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
}

func (t *transaction) Commit() error {
	t.over.Store(true)
	defer t.conn.Release()
	if t.endedByHand() {
		return transact.ErrEnded
	}
	return t.commit.send(t.conn.Conn())
}

func (t *transaction) Rollback() error {
	t.over.Store(true)
	defer t.conn.Release()
	if t.endedByHand() {
		return transact.ErrEnded
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	return t.tx.Rollback(ctx)
}

// querier is a pool, or a transaction, as package table speaks to it.
type querier struct {
	on interface {
		Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
	}
}

func (q querier) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := q.on.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (q querier) QueryRow(ctx context.Context, statement string, args ...any) table.Scanner {
	return q.on.QueryRow(ctx, statement, args...)
}

func (q querier) Query(ctx context.Context, scan func(table.Scanner) error, statement string, args ...any) error {
	rows, err := q.on.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// errNotSent: the commit did not leave this process.
var errNotSent = errors.New("receipt: the commit could not be sent")
