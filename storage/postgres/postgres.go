// Package postgres keeps records in a Postgres database, which several servers
// may share.
//
// Calls that wait are taken together by one of a few committers, and share a
// transaction: fresh Begins go as one INSERT, settlements as one UPDATE. What
// these do not take is read, and where it would change a record, read again under
// its lock, judged by lifecycle, and written. A lone call waits for nobody. The
// clock that decides is the database's; the host's is never asked what time it is.
//
// That is the plan for one node. For engines that spread keys over nodes there is
// another, in which each key is a statement and a transaction by itself: see Plan.
//
// It uses nothing that lasts longer than a transaction, so a pooler in transaction
// mode may stand between, and it never asks the server to cancel a statement: on a
// synchronous standby a cancelled commit becomes visible and is not replicated.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekeeper/oncekeeper/clock"
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
	// connection meanwhile, and one is always left for reads. Default: 3; under
	// PlanSingle, all connections but that one.
	Committers int
	// Plan is how commands become statements. Default: what fits the server.
	Plan Plan
	// WriteTimeout bounds a transaction. One that takes longer is let go, and
	// whether it was applied is not known. Default: 15 s.
	WriteTimeout time.Duration
	// Logger for faults of the database. Default: nothing is logged.
	Logger *slog.Logger

	// clock is a test's, in place of the database's, and elapsed in place of the
	// host's monotonic clock.
	clock   sqlClock
	elapsed func() time.Duration
}

// Store is a storage.Store.
type Store struct {
	cfg   Config
	log   *slog.Logger
	pool  *pgxpool.Pool
	sql   statements
	queue queue
	down  breaker
	lost  seldom

	counters counters

	choice
	writers chan struct{} // a place for each pipeline under way, under PlanSingle

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
	s := &Store{cfg: cfg, log: cfg.Logger, counters: newCounters()}
	pool, err := newPool(ctx, cfg, &s.down)
	if err != nil {
		return nil, err
	}
	s.pool = pool
	if err := s.check(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	s.sql = newStatements(cfg.clock, s.plan, s.standbys)
	committers := cfg.Committers
	if committers == 0 {
		committers = 3
		if s.plan == PlanSingle {
			committers = int(pool.Config().MaxConns)
		}
	}
	committers = max(1, min(committers, int(pool.Config().MaxConns)-1))
	s.queue.init(clock.System.Monotonic, committers, s.plan == PlanSingle)
	s.writers = make(chan struct{}, committers)
	return s, nil
}

func withDefaults(cfg Config) Config {
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 15 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.clock == (sqlClock{}) {
		cfg.clock = databaseClock
	}
	if cfg.elapsed == nil {
		cfg.elapsed = clock.System.Monotonic
	}
	return cfg
}

func (s *Store) check(ctx context.Context) error {
	at := s.pool.Config().ConnConfig
	if err := s.pool.Ping(ctx); err != nil {
		return connectError(at, err)
	}
	db := stdlib.OpenDBFromPool(s.pool)
	err := migrations.Check(ctx, db)
	if err == nil {
		err = mayWrite(ctx, db)
	}
	if err == nil {
		s.choice, err = choose(ctx, db, s.cfg.Plan)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("%s: %w", describe(at), err)
	}
	return nil
}

// mayWrite refuses a user whose every call would fail.
func mayWrite(ctx context.Context, db *sql.DB) error {
	const allowed = `SELECT bool_and(has_table_privilege('oncekeeper_records', p)) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p`
	var may bool
	switch err := db.QueryRowContext(ctx, allowed).Scan(&may); {
	case err != nil:
		return fmt.Errorf("asking what this user may do: %w", err)
	case !may:
		return errors.New("this user may not write records: GRANT SELECT, INSERT, UPDATE, DELETE ON oncekeeper_records TO it")
	default:
		return nil
	}
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

// Spread gives over how many nodes the records of the database that cfg names are
// spread. Its errors are like Open's.
func Spread(ctx context.Context, cfg Config) (migrations.Distribution, error) {
	var at migrations.Distribution
	err := onDatabase(ctx, cfg, func(db *sql.DB) (err error) {
		at, err = migrations.Spread(ctx, db)
		return err
	})
	return at, err
}

// Distribute spreads the records of the database that cfg names over the nodes of
// Citus, and says whether they were not yet. The schema must be the newest. Its
// errors are like Open's, and migrations.ErrNoCitus.
func Distribute(ctx context.Context, cfg Config) (bool, error) {
	var done bool
	err := onDatabase(ctx, cfg, func(db *sql.DB) (err error) {
		done, err = migrations.Distribute(ctx, db)
		return err
	})
	return done, err
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
	if err := errors.Join(do(db), db.Close()); err != nil {
		return fmt.Errorf("%s: %w", describe(pool.Config().ConnConfig), err)
	}
	return nil
}

// Shared implements storage.Store: other servers may have the same database.
func (s *Store) Shared() bool { return true }

// Ping implements storage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, tripPing, func(ctx context.Context, conn *pgxpool.Conn) error {
		var writable bool
		err := conn.QueryRow(ctx, s.sql.writable).Scan(&writable)
		if err == nil && !writable {
			err = errReadOnly
		}
		return err
	})
}

// CheckSchema gives nil where the database still has a schema that this version can
// serve: it may be migrated while servers run. Its errors are
// migrations.ErrOldSchema and migrations.ErrNewSchema, wrapped, with what to do;
// ErrStoreUnavailable where it cannot be told; and ctx's cause.
func (s *Store) CheckSchema(ctx context.Context) error {
	if s.queue.isClosed() {
		return errClosed
	}
	db := stdlib.OpenDBFromPool(s.pool)
	err := migrations.Check(ctx, db)
	if closing := db.Close(); err == nil {
		err = closing
	}
	switch {
	case err == nil, errors.Is(err, migrations.ErrOldSchema), errors.Is(err, migrations.ErrNewSchema):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return unavailable("reading the schema's version", err)
	}
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.close()
		s.pool.Close()
	})
	return nil
}
