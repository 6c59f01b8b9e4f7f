package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// Plain is what a caller does without the service, to be measured beside it: the two
// statements that the store makes of a first Begin and of its Complete, each sent for
// one key by itself, straight from pgx. It has no other of the service's rules.
type Plain struct {
	pool *pgxpool.Pool
	sql  statements
}

// OpenPlain connects to the database of a store, whose schema is there, on up to so
// many connections.
func OpenPlain(ctx context.Context, dsn string, conns int) (*Plain, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errAddress
	}
	cfg.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Plain{pool: pool, sql: newStatements(databaseClock, PlanMany, true)}, nil
}

// Close closes the connections.
func (p *Plain) Close() { p.pool.Close() }

// Pair begins a key that nobody has, and completes it.
func (p *Plain) Pair(ctx context.Context, begin lifecycle.Begin, response *oncekeeper.Response) error {
	var first, second columnsOf
	if err := addBegin(&first, begin); err != nil {
		return err
	}
	var tenant, operation, id string
	var token, written int64
	if err := p.pool.QueryRow(ctx, p.sql.begin.one, first.args()...).Scan(&tenant, &operation, &id, &token, &written); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	settle := lifecycle.Settle{Key: begin.Key, Token: token, As: oncekeeper.SettledComplete, Response: response}
	if err := addSettle(&second, settle); err != nil {
		return err
	}
	rows, err := p.pool.Query(ctx, p.sql.settle.one, second.args()...)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(errors.New("settle: it was not taken"), rows.Err())
	}
	_, err = scanRecord(rows)
	return err
}
