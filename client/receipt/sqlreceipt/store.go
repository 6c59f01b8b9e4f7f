// Package sqlreceipt keeps receipts in Postgres or SQLite through database/sql, and
// has a handler's function run in a transaction that writes its receipt.
//
// It owns how database/sql is spoken to and which of a driver's errors mean what,
// and it links no driver. The rules of a receipt are package receipt's.
//
// # Postgres
//
// Any driver whose errors have an SQLState() string: pgx's stdlib and lib/pq do.
// Where pgx itself is at hand, pgxreceipt knows more of a commit.
//
// # SQLite
//
// The driver's errors have a Code() int, as modernc.org/sqlite's do; for others
// Config.ResultCode reads it. One writer works at a time, and the others wait, which
// takes a busy time-out in the address, and readers that do not stop it take the
// write-ahead log:
//
//	file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate
//
// Without _txlock=immediate InTx is as safe inside an attempt, since its first
// statement takes the lock; outside one, a function that reads before it writes
// meets SQLITE_BUSY more often, and is run again.
package sqlreceipt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// Dialect is which database it is.
type Dialect uint8

// The dialects.
const (
	Postgres Dialect = iota + 1 // 12 and up
	SQLite                      // 3.24 and up
)

func (d Dialect) words() (table.Dialect, error) {
	switch d {
	case Postgres:
		return table.Postgres, nil
	case SQLite:
		return table.SQLite, nil
	default:
		return table.Dialect{}, fmt.Errorf("sqlreceipt: the dialect %d is unknown: give sqlreceipt.Postgres or sqlreceipt.SQLite", d)
	}
}

// Schema gives the SQL that creates the table; empty for a dialect that is unknown.
func (d Dialect) Schema() string {
	words, _ := d.words()
	return words.Schema
}

// Config is what a Store needs; only DB and Dialect must be given.
type Config struct {
	// DB leads to the primary of the database that the operations change. The store
	// does not close it. A transaction whose commit had no answer is looked for on
	// another connection of it.
	DB      *sql.DB
	Dialect Dialect
	// Schema is where the table oncekeeper_receipts is; default: where an unqualified
	// name leads.
	Schema string
	// Isolation of InTx's transactions; default: the driver's. At any level a claim
	// sees what was committed before it.
	Isolation sql.IsolationLevel
	// ResultCode reads SQLite's result code from an error of the driver; default: by
	// its Code() int.
	ResultCode func(error) (code int, ok bool)
	// Horizon is receipt.DefaultHorizon by default.
	Horizon time.Duration
	// Patience bounds how long the answer of a commit is waited for, and as long
	// again how long is looked for one that had none, whether or not the caller is
	// still there. Default: receipt.DefaultPatience.
	Patience time.Duration
}

// Store is receipt.Store on a database/sql database, and what InTx needs.
type Store struct {
	db       *sql.DB
	table    *table.Table
	speech   speech
	horizon  time.Duration
	database transact.Database[*sql.Tx]
}

var _ receipt.Store = (*Store)(nil)

// New gives a store. It does not connect.
func New(c Config) (*Store, error) {
	words, err := c.Dialect.words()
	switch {
	case c.DB == nil:
		return nil, errors.New("sqlreceipt: Config.DB is missing")
	case err != nil:
		return nil, err
	case c.Horizon < 0 || c.Patience < 0:
		return nil, errors.New("sqlreceipt: Config.Horizon and Config.Patience must not be negative")
	}
	if c.Horizon == 0 {
		c.Horizon = receipt.DefaultHorizon
	}
	if c.Patience == 0 {
		c.Patience = receipt.DefaultPatience
	}
	s := &Store{db: c.DB, table: table.New(words, c.Schema), horizon: c.Horizon}
	s.speech = speechOf(c)
	s.database = transact.Database[*sql.Tx]{
		Table:    s.table,
		Begin:    beginner(c),
		Explain:  s.speech.explain,
		Fate:     s.speech.fate,
		Patience: c.Patience,
	}
	return s, nil
}

// Horizon is how long a receipt is kept at least.
func (s *Store) Horizon() time.Duration { return s.horizon }

// Look is receipt.Store's. It refuses a standby.
func (s *Store) Look(ctx context.Context, key oncekeeper.Key) (*receipt.Receipt, error) {
	r, err := s.table.Look(ctx, querier{s.db}, key)
	return r, s.doing(ctx, "looking for a receipt", err)
}

// Close is receipt.Store's. That it waits for an uncommitted receipt is bounded by
// ctx alone.
func (s *Store) Close(ctx context.Context, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	r, err := transact.Close(ctx, &s.database, c, floor)
	return r, s.doing(ctx, "closing a receipt", err)
}

// Old is receipt.Store's.
func (s *Store) Old(ctx context.Context, before time.Time, after oncekeeper.Key, limit int) ([]receipt.Receipt, error) {
	found, err := s.table.Old(ctx, querier{s.db}, before, after, limit)
	return found, s.doing(ctx, "listing old receipts", err)
}

// Delete is receipt.Store's.
func (s *Store) Delete(ctx context.Context, key oncekeeper.Key, before time.Time) (bool, error) {
	deleted, err := s.table.Delete(ctx, querier{s.db}, key, before)
	return deleted, s.doing(ctx, "deleting a receipt", err)
}

func (s *Store) doing(ctx context.Context, what string, err error) error {
	if err == nil || errors.Is(err, receipt.ErrInDoubt) {
		return err
	}
	if err = s.speech.explain(ctx, err); errors.Is(err, receipt.ErrNoTable) {
		return err
	}
	return fmt.Errorf("receipt: %s: %w", what, err)
}
