// Package postgres keeps records in a Postgres database, which several servers
// may share.
//
// Calls that wait are taken together by one of a few committers, and share a
// transaction: fresh Begins go as one INSERT, settlements as one UPDATE. What
// these do not take is read, and where it would change a record, read again under
// its lock, judged by lifecycle, and written. A lone call waits for nobody. The
// clock that decides is the database's; the host's is never asked.
//
// It uses nothing that lasts longer than a transaction, so a pooler in transaction
// mode may stand between, and it never asks the server to cancel a statement: on a
// synchronous standby a cancelled commit becomes visible and is not replicated.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekeeper/oncekeeper/migrations"
)

// Config is how a store is opened. The zero value of a field is its default.
type Config struct {
	// DSN is a Postgres address, as pgx reads it: a postgres:// URL or key=value
	// words; several hosts for failover; pool_max_conns and its kin for the pool.
	// Required.
	DSN string
	// MaxConns is the most connections that the store holds. Default: what DSN
	// says in pool_max_conns, else 8.
	MaxConns int
	// Committers is how many batches may be under way at once. Each holds a
	// connection meanwhile, and one is always left for reads. Default: 3.
	Committers int
	// WriteTimeout bounds a transaction. One that takes longer is let go, and
	// whether it was applied is not known. Default: 15 s.
	WriteTimeout time.Duration
	// Logger for faults of the database. Default: nothing is logged.
	Logger *slog.Logger

	// clock is a test's, in place of the database's.
	clock sqlClock
}

// Store is a storage.Store.
type Store struct {
	cfg   Config
	log   *slog.Logger
	pool  *pgxpool.Pool
	sql   statements
	queue queue
	down  breaker

	// Hooks of tests: between a sweep's choice and its delete, and between reading
	// without a lock and what follows.
	beforeDelete, afterLook func()

	closing sync.Once
}

// Open connects to the database and checks that it can be written to and that its
// schema is one that this version can serve. It gives up when ctx ends.
//
// Its errors say what an operator can do, name the host, and never hold the
// password. migrations.ErrOldSchema and ErrNewSchema can be told among them.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = withDefaults(cfg)
	s := &Store{cfg: cfg, log: cfg.Logger, sql: newStatements(cfg.clock)}
	pool, err := newPool(ctx, cfg, &s.down)
	if err != nil {
		return nil, err
	}
	s.pool = pool
	if err := s.check(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	s.queue.init(max(1, min(cfg.Committers, int(pool.Config().MaxConns)-1)))
	return s, nil
}

func withDefaults(cfg Config) Config {
	if cfg.Committers == 0 {
		cfg.Committers = 3
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 15 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.clock == (sqlClock{}) {
		cfg.clock = databaseClock
	}
	return cfg
}

func (s *Store) check(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return connectError(s.pool.Config().ConnConfig, err)
	}
	db := stdlib.OpenDBFromPool(s.pool)
	return errors.Join(migrations.Check(ctx, db), db.Close())
}

// Migrate brings the database that cfg names to the newest schema and gives the
// steps that it took. Its errors are like Open's.
func Migrate(ctx context.Context, cfg Config) ([]migrations.Step, error) {
	var taken []migrations.Step
	err := onDatabase(ctx, cfg, func(db *sql.DB) (err error) {
		taken, err = migrations.Up(ctx, db)
		return err
	})
	return taken, err
}

// Schema gives every step of the schema, and whether the database that cfg names
// has it. It changes nothing. Its errors are like Open's.
func Schema(ctx context.Context, cfg Config) ([]migrations.Step, error) {
	var all []migrations.Step
	err := onDatabase(ctx, cfg, func(db *sql.DB) (err error) {
		all, err = migrations.Status(ctx, db)
		return err
	})
	return all, err
}

func onDatabase(ctx context.Context, cfg Config, do func(*sql.DB) error) error {
	pool, err := newPool(ctx, withDefaults(cfg), &breaker{})
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return connectError(pool.Config().ConnConfig, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(do(db), db.Close())
}

// Shared implements storage.Store: other servers may have the same database.
func (s *Store) Shared() bool { return true }

// Ping implements storage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		var writable bool
		err := conn.QueryRow(ctx, s.sql.writable).Scan(&writable)
		if err == nil && !writable {
			err = errReadOnly
		}
		return err
	})
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.close()
		s.pool.Close()
	})
	return nil
}
