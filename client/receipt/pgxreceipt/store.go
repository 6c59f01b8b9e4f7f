// Package pgxreceipt keeps receipts in Postgres through pgx, and has a handler's
// function run in a transaction that writes its receipt.
//
// It owns how pgx is spoken to: which errors mean what, and how a commit is sent
// so that its answer, or the lack of one, is not misread. The rules of a receipt
// are package receipt's.
package pgxreceipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
	"github.com/oncekeeper/oncekeeper/client/receipt/internal/transact"
)

// Config is what a Store needs; only Pool must be given.
type Config struct {
	// Pool leads to the primary of the database that the operations change. The
	// store does not close it. A transaction whose commit had no answer is looked
	// for on another connection of it.
	Pool *pgxpool.Pool
	// Schema is where the table oncekeeper_receipts is; default: where the search
	// path leads.
	Schema string
	// Isolation of InTx's transactions; default: the database's. At any level a
	// claim sees what was committed before it.
	Isolation pgx.TxIsoLevel
	// Horizon is receipt.DefaultHorizon by default.
	Horizon time.Duration
	// Patience bounds how long the answer of a commit is waited for, and as long
	// again how long is looked for one that had none, whether or not the caller is
	// still there. Default: receipt.DefaultPatience.
	Patience time.Duration
}

// Store is receipt.Store on Postgres, 12 and up, and what InTx needs.
type Store struct {
	pool     *pgxpool.Pool
	table    *table.Table
	horizon  time.Duration
	database transact.Database[pgx.Tx]
}

var _ receipt.Store = (*Store)(nil)

// New gives a store. It does not connect.
func New(c Config) (*Store, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("pgxreceipt: Config.Pool is missing")
	case c.Horizon < 0 || c.Patience < 0:
		return nil, errors.New("pgxreceipt: Config.Horizon and Config.Patience must not be negative")
	}
	if c.Horizon == 0 {
		c.Horizon = receipt.DefaultHorizon
	}
	if c.Patience == 0 {
		c.Patience = receipt.DefaultPatience
	}
	s := &Store{pool: c.Pool, table: table.New(table.Postgres, c.Schema), horizon: c.Horizon}
	s.database = transact.Database[pgx.Tx]{
		Table:    s.table,
		Begin:    beginner(c),
		Explain:  func(_ context.Context, err error) error { return explain(err) },
		Fate:     fateOf,
		Patience: c.Patience,
	}
	return s, nil
}

// Schema gives the SQL that creates the table.
func Schema() string { return table.Postgres.Schema }

// Horizon is how long a receipt is kept at least.
func (s *Store) Horizon() time.Duration { return s.horizon }

// Look is receipt.Store's. It refuses a standby.
func (s *Store) Look(ctx context.Context, key oncekeeper.Key) (*receipt.Receipt, error) {
	r, err := s.table.Look(ctx, querier{s.pool}, key)
	return r, doing("looking for a receipt", err)
}

// Close is receipt.Store's. That it waits for an uncommitted receipt is bounded by
// ctx alone.
func (s *Store) Close(ctx context.Context, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	r, err := transact.Close(ctx, &s.database, c, floor)
	return r, doing("closing a receipt", err)
}

// Old is receipt.Store's.
func (s *Store) Old(ctx context.Context, before time.Time, after oncekeeper.Key, limit int) ([]receipt.Receipt, error) {
	found, err := s.table.Old(ctx, querier{s.pool}, before, after, limit)
	return found, doing("listing old receipts", err)
}

// Delete is receipt.Store's.
func (s *Store) Delete(ctx context.Context, key oncekeeper.Key, before time.Time) (bool, error) {
	deleted, err := s.table.Delete(ctx, querier{s.pool}, key, before)
	return deleted, doing("deleting a receipt", err)
}

func doing(what string, err error) error {
	if err = explain(err); err == nil || errors.Is(err, receipt.ErrNoTable) || errors.Is(err, receipt.ErrInDoubt) {
		return err
	}
	return fmt.Errorf("receipt: %s: %w", what, err)
}
