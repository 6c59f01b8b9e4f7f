// Package pgtest gives each test a fresh Postgres database.
//
// The server is the one that ONCEKEEPER_TEST_POSTGRES names, by the address of a
// user who may create databases; otherwise each test binary starts one of its own
// from the installed binaries. Where neither is there the test fails, and says
// what to install: no test of the Postgres store is ever skipped.
package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/oncekeeper/oncekeeper/migrations"
)

// addressVariable names a server for the tests.
const addressVariable = "ONCEKEEPER_TEST_POSTGRES"

// Database gives the address of a database with the newest schema and no record
// in it, which is gone when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	if Distributed() {
		address := EmptyDatabase(t)
		if err := errors.Join(migrate(address), distribute(address)); err != nil {
			t.Fatal(err)
		}
		return address
	}
	template, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	return create(t, shared.address, template)
}

// EmptyDatabase is Database with nothing in it, no schema either.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	if err := shared.start(); err != nil {
		t.Fatal(err)
	}
	if Distributed() {
		return createDistributed(t, shared.address)
	}
	return create(t, shared.address, "template0")
}

var made atomic.Int64

// name gives a database's name that no other process gives at the same time.
func name(of string) string {
	return fmt.Sprintf("oncekeeper_%s_%d_%d", of, os.Getpid(), made.Add(1))
}

func create(t testing.TB, server, template string) string {
	t.Helper()
	database := name("test")
	if err := run(server, "CREATE DATABASE "+database+" ENCODING 'UTF8' TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(server, "DROP DATABASE "+database+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return Beside(server, database)
}

// Beside gives the address of a database of the same server.
func Beside(server, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // run has said so
	}
	u.Path = "/" + database
	return u.String()
}

func run(server string, statements ...string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connecting to the Postgres of the tests: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// migrated gives the name of a database with the newest schema, made once, to
// clone.
var migrated = sync.OnceValues(func() (string, error) {
	if err := shared.start(); err != nil {
		return "", err
	}
	template := name("template")
	if err := run(shared.address, "CREATE DATABASE "+template+" ENCODING 'UTF8' TEMPLATE template0"); err != nil {
		return "", err
	}
	return template, migrate(Beside(shared.address, template))
})

func migrate(address string) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	_, err = migrations.Up(context.Background(), db)
	return errors.Join(err, db.Close())
}

var shared sharedServer

// sharedServer is the server of all tests of this process.
type sharedServer struct {
	once    sync.Once
	address string
	err     error
}

func (s *sharedServer) start() error {
	s.once.Do(func() {
		if s.address = strings.TrimSpace(os.Getenv(addressVariable)); s.address != "" {
			return
		}
		var own *Server
		if own, s.err = start("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off"); s.err == nil {
			s.address = own.Address
		}
	})
	return s.err
}
