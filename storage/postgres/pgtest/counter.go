package pgtest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Counter stands before a Postgres and counts what is asked of it.
type Counter struct {
	// Address of the database, by way of the Counter.
	Address string

	network, server    string
	statements, opened atomic.Int64
}

// Count gives a Counter before the server of a database.
func Count(t testing.TB, address string) *Counter {
	t.Helper()
	to, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "okcount")
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", dir)
	u.Host, u.RawQuery = "", q.Encode()
	c := &Counter{Address: u.String()}
	c.network, c.server = pgconn.NetworkAddress(to.Host, to.Port)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = lis.Close()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	all.Go(func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				if err := c.pass(client); err != nil {
					t.Errorf("counting statements: %v", err)
				}
			})
		}
	})
	return c
}

// Statements is how many were sent to be executed so far.
func (c *Counter) Statements() int64 { return c.statements.Load() }

// Connections is how many were opened so far.
func (c *Counter) Connections() int64 { return c.opened.Load() }

// pass goes on until either side ends the connection.
func (c *Counter) pass(client net.Conn) error {
	defer func() { _ = client.Close() }()
	server, err := net.Dial(c.network, c.server)
	if err != nil {
		return err
	}
	c.opened.Add(1)
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	err = c.count(bufio.NewReader(client), server)
	_ = server.Close()
	answers.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// count passes a client's messages on: the first has a length alone, every other a
// letter before it.
func (c *Counter) count(from *bufio.Reader, to io.Writer) error {
	for header := 4; ; header = 5 {
		begun, err := from.Peek(header)
		if err != nil {
			return err
		}
		switch {
		case header == 4:
		case begun[0] == 'E', begun[0] == 'Q':
			c.statements.Add(1)
		}
		size := int64(header-4) + int64(binary.BigEndian.Uint32(begun[header-4:]))
		if _, err := io.CopyN(to, from, size); err != nil {
			return err
		}
	}
}
