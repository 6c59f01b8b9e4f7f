// Package migrations is the schema of the Postgres store, step by step: the SQL,
// what brings a database to the newest step, and what tells how far one is.
//
// It knows tables and no records. Steps are only ever added, and a server goes on
// running beside a newer schema, and starts on it too, for as long as a rollout
// takes: a step may add a table, an index, or a column that is null or has a
// default, and whose value may be stale once an older version wrote the row. A step
// that does more says so, by its number in oncekeeper_breaking_steps: versions that
// do not know it no longer start, and those that run must have ended before.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

//go:embed *.sql
var steps embed.FS

// table keeps which steps a database has.
const table = "oncekeeper_schema"

// ErrNotUTF8: the database's encoding cannot hold every key.
var ErrNotUTF8 = errors.New("the database's encoding is not UTF8: create it with ENCODING 'UTF8'")

// Step is one step of the schema.
type Step struct {
	Version int64
	Name    string
	// Applied is when, zero for not yet.
	Applied time.Time
}

// Up brings the database to the newest step and gives those that it took. Of
// several at once on one database one works and the others wait for it; a step is
// taken whole or not at all.
//
// It needs two connections: one holds the lock, in a transaction, since a lock of
// a session does not hold behind a pooler.
func Up(ctx context.Context, db *sql.DB) ([]Step, error) {
	var encoding string
	if err := db.QueryRowContext(ctx, `SELECT current_setting('server_encoding')`).Scan(&encoding); err != nil {
		return nil, fmt.Errorf("asking the database's encoding: %w", err)
	}
	if encoding != "UTF8" {
		return nil, ErrNotUTF8
	}
	p, err := provider(db, goose.WithLocker(&transactionLock{}))
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrating: %w", err)
	}
	var taken []Step
	for _, r := range results {
		taken = append(taken, Step{Version: r.Source.Version, Name: r.Source.Path})
	}
	return taken, nil
}

// Status gives every step, and whether the database has it. It changes nothing.
func Status(ctx context.Context, db *sql.DB) ([]Step, error) {
	at, err := applied(ctx, db)
	if err != nil {
		return nil, err
	}
	p, err := provider(db)
	if err != nil {
		return nil, err
	}
	var all []Step
	for _, s := range p.ListSources() {
		all = append(all, Step{Version: s.Version, Name: s.Path, Applied: at[s.Version]})
	}
	return all, nil
}

// Current gives the newest step of the database, 0 for none.
func Current(ctx context.Context, db *sql.DB) (int64, error) {
	at, err := applied(ctx, db)
	newest := int64(0)
	for version := range at {
		newest = max(newest, version)
	}
	return newest, err
}

// Newest gives the newest step that this version knows.
func Newest() int64 {
	entries, err := steps.ReadDir(".")
	if err != nil {
		panic(err) // embedded: it was there when this was built
	}
	newest := int64(0)
	for _, e := range entries {
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			panic(err)
		}
		newest = max(newest, version)
	}
	return newest
}

func provider(db *sql.DB, opts ...goose.ProviderOption) (*goose.Provider, error) {
	opts = append(opts,
		goose.WithTableName(table),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(slog.New(slog.DiscardHandler)),
	)
	p, err := goose.NewProvider(goose.DialectPostgres, db, steps, opts...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	return p, nil
}

// applied gives when each step was taken. It asks by itself: the library makes its
// table where that is missing, and a look must change nothing.
func applied(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	rows, err := db.QueryContext(ctx, `SELECT version_id, tstamp FROM `+table+` WHERE is_applied AND version_id > 0`)
	if fault := (*pgconn.PgError)(nil); errors.As(err, &fault) && fault.Code == undefinedTable {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema's version: %w", err)
	}
	defer func() { _ = rows.Close() }()
	at := map[int64]time.Time{}
	for rows.Next() {
		var version int64
		var when time.Time
		if err := rows.Scan(&version, &when); err != nil {
			return nil, fmt.Errorf("reading the schema's version: %w", err)
		}
		at[version] = when
	}
	return at, rows.Err()
}

const undefinedTable = "42P01"

// ErrOldSchema: the database lacks steps that this version needs.
var ErrOldSchema = errors.New("the database's schema is older than this version needs")

// ErrNewSchema: the database has a step that this version does not know and cannot
// serve beside.
var ErrNewSchema = errors.New("the database's schema is newer than this version can serve")

// Check gives nil where this version can serve the database as it is; else
// ErrOldSchema or ErrNewSchema, wrapped, with what to run.
func Check(ctx context.Context, db *sql.DB) error {
	current, err := Current(ctx, db)
	newest := Newest()
	switch {
	case err != nil:
		return err
	case current < newest:
		return fmt.Errorf("%w (it has step %d of %d): run oncekeeper migrate up", ErrOldSchema, current, newest)
	case current == newest:
		return nil
	}
	var breaking int64
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(step), 0) FROM oncekeeper_breaking_steps`).Scan(&breaking); err != nil {
		return fmt.Errorf("reading which steps of the schema break older versions: %w", err)
	}
	if breaking > newest {
		return fmt.Errorf("%w (it has step %d, and steps up to %d are known): run the version of oncekeeper that migrated it, or a later one", ErrNewSchema, breaking, newest)
	}
	return nil
}
