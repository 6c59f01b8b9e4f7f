package sqlreceipt_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
	"time"
)

// watched is a SQLite database whose calls are seen, and broken where a test says
// so. A request is one call of the driver.
type watched struct {
	driver driver.Driver
	name   string

	mu     sync.Mutex
	cutIn  int // as receipttest.Proxy's
	behind bool
	cuts   int
	busy   int
}

func openWatched(t *testing.T, address string) (*sql.DB, *watched) {
	t.Helper()
	plain := openDB(t, "sqlite", address)
	w := &watched{driver: plain.Driver(), name: address, cutIn: -1}
	db := sql.OpenDB(w)
	t.Cleanup(func() { db.Close() })
	return db, w
}

func (w *watched) Connect(context.Context) (driver.Conn, error) {
	conn, err := w.driver.Open(w.name)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: conn, w: w}, nil
}

func (w *watched) Driver() driver.Driver { return w.driver }

func (w *watched) Cut(nth int, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutIn, w.behind, w.cuts = nth, behind, 0
}

func (w *watched) Cuts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts
}

// awaitBusy returns when so many calls more were refused because another
// transaction writes.
func (w *watched) awaitBusy(t *testing.T, n int) {
	t.Helper()
	w.mu.Lock()
	w.busy = 0
	w.mu.Unlock()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		busy := w.busy
		w.mu.Unlock()
		if busy >= n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d calls found another transaction writing, want %d", busy, n)
		}
	}
}

type watchedConn struct {
	driver.Conn
	w      *watched
	broken bool
}

// do makes one request, which may be cut.
func (c *watchedConn) do(request func() error) error {
	if c.broken {
		return driver.ErrBadConn
	}
	c.w.mu.Lock()
	cut, behind := c.w.cutIn == 0, c.w.behind
	if c.w.cutIn--; cut {
		c.w.cuts++
	}
	c.w.mu.Unlock()
	if cut && !behind {
		return c.cut()
	}
	err := request()
	if coded := (interface{ Code() int })(nil); errors.As(err, &coded) && coded.Code()&0xff == 5 {
		c.w.mu.Lock()
		c.w.busy++
		c.w.mu.Unlock()
	}
	if cut {
		return c.cut()
	}
	return err
}

func (c *watchedConn) cut() error {
	c.broken = true
	return errors.Join(driver.ErrBadConn, c.Conn.Close())
}

func (c *watchedConn) Close() error {
	if c.broken {
		return nil
	}
	return c.Conn.Close()
}

func (c *watchedConn) IsValid() bool { return !c.broken }

func (c *watchedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.do(func() (err error) {
		tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &watchedTx{tx, c}, nil
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = c.do(func() (err error) {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.do(func() (err error) {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	return rows, err
}

type watchedTx struct {
	driver.Tx
	c *watchedConn
}

func (t *watchedTx) Commit() error   { return t.c.do(t.Tx.Commit) }
func (t *watchedTx) Rollback() error { return t.c.do(t.Tx.Rollback) }
