package postgres

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// TestAnErrorOfOneStatementSaysNothingOfThoseThatABreakBehindItCutOff: each is a
// transaction by itself, and the server goes on with the next.
func TestAnErrorOfOneStatementSaysNothingOfThoseThatABreakBehindItCutOff(t *testing.T) {
	cfg, err := pgx.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &breaksAtError{Conn: conn}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	nothing := func(pgx.Rows) error { return nil }
	all := []*statement{
		{sql: `SELECT 1 / 0`, scan: nothing},
		{sql: `CREATE TABLE applied ()`, scan: nothing},
	}
	if err := pipelined(t.Context(), conn, all); err != nil {
		t.Fatal(err)
	}
	if got := fateOf(all[1].err); got != unknown {
		t.Errorf("what was sent behind it has fate %d, want unknown: %v", got, all[1].err)
	}
}

// breaksAtError is a connection that ends behind the first error of the server's
// that is a division by zero.
type breaksAtError struct {
	net.Conn
	broken bool
}

func (c *breaksAtError) Read(p []byte) (int, error) {
	if c.broken {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p)
	if at := bytes.Index(p[:n], []byte("C22012\x00")); at >= 0 {
		if end := bytes.Index(p[at:n], []byte{0, 0}); end >= 0 {
			c.broken = true
			return at + end + 2, nil
		}
	}
	return n, err
}
