package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Distribution is over how many nodes the records are spread.
type Distribution uint8

const (
	// NoCitus: the database has not the extension citus.
	NoCitus Distribution = iota
	// OneNode: it has, and the records are all on one node.
	OneNode
	// Distributed: the records are spread over its nodes.
	Distributed
)

// ErrNoCitus: records can be distributed by Citus alone.
var ErrNoCitus = errors.New("the database has no Citus to distribute its records with: run CREATE EXTENSION citus in it, on every node, and add the nodes")

// Spread gives over how many nodes the records of a migrated database are spread.
func Spread(ctx context.Context, db *sql.DB) (Distribution, error) {
	var citus bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass('pg_dist_partition') IS NOT NULL`).Scan(&citus); err != nil {
		return 0, fmt.Errorf("asking whether the database has Citus: %w", err)
	}
	if !citus {
		return NoCitus, nil
	}
	var distributed bool
	err := db.QueryRowContext(ctx, `
		SELECT count(*) > 0 FROM pg_dist_partition
		WHERE logicalrelid = to_regclass('oncekeeper_records') AND partmethod = 'h'`).Scan(&distributed)
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking whether the records are distributed: %w", err)
	case distributed:
		return Distributed, nil
	default:
		return OneNode, nil
	}
}

// Distribute spreads the records of a migrated database over the nodes of Citus,
// by id, and says whether they were not yet. Of several at once one works and the
// others wait for it. Like Up it needs two connections.
//
// Writes wait meanwhile. A server that was started before must be started again:
// it goes on by statements that Citus takes of a table on one node alone.
//
// Errors: ErrNoCitus.
func Distribute(ctx context.Context, db *sql.DB) (done bool, err error) {
	lock := &transactionLock{}
	if err := lock.Lock(ctx, db); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx, db)) }()
	switch at, err := Spread(ctx, db); {
	case err != nil:
		return false, err
	case at == NoCitus:
		return false, ErrNoCitus
	case at == Distributed:
		return false, nil
	}
	if _, err := db.ExecContext(ctx, `SELECT create_distributed_table('oncekeeper_records', 'id')`); err != nil {
		return false, fmt.Errorf("distributing the records: %w", err)
	}
	// What was copied to the nodes stays behind, hidden, unless it is removed.
	if _, err := db.ExecContext(ctx, `SELECT truncate_local_data_after_distributing_table('oncekeeper_records')`); err != nil {
		return true, fmt.Errorf("the records are distributed; removing what was copied: %w", err)
	}
	return true, nil
}
