package pgxreceipt

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// committer sends COMMIT by hand. pgx asks the server to cancel whatever it runs
// when it gives a connection up, at the end of a context as after a fault; and a
// commit that waits for its standby is, cancelled, visible and unreplicated.
type committer struct {
	tracer   pgx.QueryTracer
	patience time.Duration
}

const commitSQL = "commit"

// send gives nil once the transaction of conn is committed, and pgx's own error for
// a commit that turned out a rollback. Past the patience, and after any fault of the
// connection, it is dropped.
func (c committer) send(conn *pgx.Conn) error {
	if conn.IsClosed() {
		return fmt.Errorf("%w: the connection was lost before", errNotSent)
	}
	if conn.PgConn().IsBusy() {
		drop(conn)
		return fmt.Errorf("%w: the function left rows open: close what it queries", errNotSent)
	}
	ctx := context.Background()
	if c.tracer != nil {
		ctx = c.tracer.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: commitSQL})
	}
	tag, err := c.exchange(conn)
	if c.tracer != nil {
		c.tracer.TraceQueryEnd(ctx, conn, pgx.TraceQueryEndData{CommandTag: tag, Err: err})
	}
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

func (c committer) exchange(conn *pgx.Conn) (pgconn.CommandTag, error) {
	pc := conn.PgConn()
	if err := pc.Conn().SetDeadline(time.Now().Add(c.patience)); err != nil {
		drop(conn)
		return pgconn.CommandTag{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	front := pc.Frontend()
	front.SendQuery(&pgproto3.Query{String: commitSQL})
	if err := front.Flush(); err != nil {
		drop(conn)
		return pgconn.CommandTag{}, fmt.Errorf("sending the commit: %w", err)
	}
	for {
		message, err := front.Receive()
		if err != nil {
			drop(conn)
			return pgconn.CommandTag{}, fmt.Errorf("waiting for the commit: %w", err)
		}
		switch m := message.(type) {
		case *pgproto3.CommandComplete:
			tag := pgconn.NewCommandTag(string(m.CommandTag))
			settle(conn)
			return tag, nil
		case *pgproto3.ErrorResponse:
			fault := pgconn.ErrorResponseToPgError(m)
			settle(conn)
			return pgconn.CommandTag{}, fault
		}
	}
}

// settle reads up to where the server is ready again, when the commit is no longer
// in question, so that pgx knows it too.
func settle(conn *pgx.Conn) {
	for {
		message, err := conn.PgConn().ReceiveMessage(context.Background())
		if err != nil {
			drop(conn)
			return
		}
		if _, ready := message.(*pgproto3.ReadyForQuery); ready {
			if conn.PgConn().Conn().SetDeadline(time.Time{}) != nil {
				drop(conn)
			}
			return
		}
	}
}

// drop closes a connection on which nothing is running for all that pgx knows, so
// that it asks for nothing to be cancelled.
func drop(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
