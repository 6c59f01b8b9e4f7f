package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/bench"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

// place is where the records of a measured service lie, and nothing else.
type place struct {
	store, where string
	// dir of an embedded store.
	dir string
	// remove may be called once the service has stopped.
	remove func() error
	pg     *postgres.Plain
}

func makePlace(ctx context.Context, store string) (*place, error) {
	f := &storeFlags{Store: store}
	if f.isPostgres() {
		return makeSchema(ctx, f)
	}
	dir, ok := strings.CutPrefix(store, "pebble:")
	if !ok {
		return &place{store: store, where: store, remove: func() error { return nil }}, nil
	}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	own, err := os.MkdirTemp(dir, "oncekeeper-bench-")
	if err != nil {
		return nil, err
	}
	return &place{store: "pebble:" + own, where: "pebble:" + own, dir: own, remove: func() error { return os.RemoveAll(own) }}, nil
}

// makeSchema makes a schema in a database, whose user may.
func makeSchema(ctx context.Context, f *storeFlags) (*place, error) {
	u, err := url.Parse(f.Store)
	if err != nil {
		return nil, errors.New("--store cannot be read as an address: give postgres://USER@HOST/DATABASE")
	}
	name := "oncekeeper_bench_" + strings.ToLower(rand.Text()[:10])
	if err := inDatabase(ctx, f.Store, "CREATE SCHEMA "+name); err != nil {
		return nil, err
	}
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	p := &place{store: u.String(), where: f.describe()}
	p.remove = func() error {
		if p.pg != nil {
			p.pg.Close()
		}
		return inDatabase(context.WithoutCancel(ctx), f.Store, "DROP SCHEMA "+name+" CASCADE")
	}
	return p, nil
}

func inDatabase(ctx context.Context, dsn, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, measuredStop)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		// Its text may hold the address, and that a password.
		return errors.New("the database of --store cannot be reached: look whether psql can")
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("a schema of its own to be measured in: %w", err)
	}
	return nil
}

// plainConns is how many connections plain SQL has: what a pool of a busy service has.
const plainConns = 32

// openPlain gives what is measured beside a service on Postgres; nil for other
// stores.
func (p *place) openPlain(ctx context.Context, callers int) (bench.PlainPair, error) {
	if !(&storeFlags{Store: p.store}).isPostgres() {
		return nil, nil
	}
	pg, err := postgres.OpenPlain(ctx, p.store, min(callers, plainConns))
	if err != nil {
		return nil, err
	}
	p.pg = pg
	return func(ctx context.Context, id string, response []byte) error {
		return pg.Pair(ctx, lifecycle.Begin{
			Key:         oncekeeper.Key{Tenant: "plain", Operation: "bench.Payments/Charge", ID: id},
			Fingerprint: []byte("0123456789abcdef0123456789abcdef"), FingerprintScheme: "raw", CallID: id, Holder: "plain",
			Grant: oncekeeper.Grant{Lease: 30 * time.Second, Retention: time.Minute, UnsettledRetention: 30 * 24 * time.Hour},
		}, &oncekeeper.Response{Body: response, ContentType: "application/octet-stream"})
	}, nil
}
