package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage"
)

const (
	// sweepBatch is how many rows one transaction of a sweep touches at the most.
	sweepBatch = 256
	// sweepSlack is how early a sweep may find a record without moving it on in the
	// index: the time between a grant and its settlement is nearly always less.
	sweepSlack = time.Minute
)

// known: of a state, or a holder's word, that this version does not know, nothing
// is ever gone.
const known = `r.state BETWEEN 1 AND 4 AND r.last BETWEEN 0 AND 4`

// sweepFindSQL finds what is gone until $1, and what must be moved on in the index
// to be found when it is.
const sweepFindSQL = `
SELECT r.tenant, r.operation, r.id, r.token, r.sweep_at, r.expires > 0 AND r.expires <= $1
FROM oncekeeper_records AS r
WHERE r.sweep_at <= $1 AND (r.sweep_at, r.tenant, r.operation, r.id) > ($2, $3, $4, $5)
	AND ($6 = '' OR r.tenant = $6) AND ($7 = '' OR r.operation = $7)
	AND (r.expires = 0 OR r.expires <= $1 OR r.expires > $8) AND ` + known + `
ORDER BY r.sweep_at, r.tenant, r.operation, r.id
LIMIT $9`

const sweepDrySQL = `
SELECT count(*) FROM (
	SELECT 1 FROM oncekeeper_records AS r
	WHERE r.sweep_at <= $1 AND r.expires > 0 AND r.expires <= $1 AND ` + known + `
		AND ($2 = '' OR r.tenant = $2) AND ($3 = '' OR r.operation = $3)
	LIMIT $4) AS gone`

const sweepPastSQL = `
UPDATE oncekeeper_records AS r
SET sweep_at = CASE WHEN r.expires = 0 THEN 9223372036854775807 ELSE r.expires END
$from
WHERE ` + sameKey + ` AND r.sweep_at <= i.until AND (r.expires = 0 OR r.expires > i.until) AND ` + known

// dropped looks again, at the row as it is when it is locked.
const dropped = sameKey + ` AND r.token = i.token AND r.expires > 0 AND r.expires <= i.until AND ` + known

const sweepDropInput = ", token bigint, until bigint"

// sweepDropManySQL leaves a row that another holds to the next sweep, since it
// holds rows itself.
const sweepDropManySQL = `
DELETE FROM oncekeeper_records AS d USING (
	SELECT r.tenant, r.operation, r.id
	FROM $beside oncekeeper_records AS r
	WHERE ` + dropped + `
	ORDER BY r.tenant, r.operation, r.id
	FOR UPDATE OF r SKIP LOCKED) AS f
WHERE d.tenant = f.tenant AND d.operation = f.operation AND d.id = f.id`

const sweepDropOneSQL = `DELETE FROM oncekeeper_records AS r WHERE ` + dropped

// Sweep implements storage.Store.
func (s *Store) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	var swept storage.Swept
	var now oncekeeper.Instant
	err := s.read(ctx, tripSweep, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.sql.clock).Scan(&now)
	})
	if err != nil {
		return swept, err
	}
	// All of a sweep counts from its start: what expires meanwhile is the next one's.
	until := max(0, now.Add(-max(0, q.Grace)))
	if q.DryRun {
		err := s.read(ctx, tripSweep, func(ctx context.Context, conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, s.sql.sweepDry, int64(until), q.Tenant, q.Operation, int64(q.Limit)+1).Scan(&swept.Records)
		})
		swept.More = swept.Records > int64(q.Limit)
		swept.Records = min(swept.Records, int64(q.Limit))
		return swept, err
	}
	at := sweepCursor{at: math.MinInt64}
	for {
		found, err := s.sweepFind(ctx, q, until, &at)
		if err != nil || len(found) == 0 {
			return swept, err
		}
		if s.beforeDelete != nil {
			s.beforeDelete()
		}
		if err := s.sweepBatch(ctx, found, until, int64(q.Limit), &swept); err != nil || swept.More {
			return swept, err
		}
	}
}

// sweepCursor is how far a sweep has looked.
type sweepCursor struct {
	at  int64
	key oncekeeper.Key
}

type candidate struct {
	key   oncekeeper.Key
	token int64
	gone  bool
}

func (s *Store) sweepFind(ctx context.Context, q storage.SweepQuery, until oncekeeper.Instant, at *sweepCursor) ([]candidate, error) {
	var found []candidate
	next := *at
	err := s.read(ctx, tripSweep, func(ctx context.Context, conn *pgxpool.Conn) error {
		found, next = nil, *at
		rows, err := conn.Query(ctx, s.sql.sweepFind, int64(until), at.at, at.key.Tenant, at.key.Operation, at.key.ID,
			q.Tenant, q.Operation, int64(until.Add(sweepSlack)), int64(sweepBatch))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c candidate
			if err := rows.Scan(&c.key.Tenant, &c.key.Operation, &c.key.ID, &c.token, &next.at, &c.gone); err != nil {
				return err
			}
			next.key = c.key
			found = append(found, c)
		}
		return rows.Err()
	})
	*at = next
	return found, err
}

// sweepBatch deletes what is gone among found, up to limit in all, and moves the
// rest on.
func (s *Store) sweepBatch(ctx context.Context, found []candidate, until oncekeeper.Instant, limit int64, swept *storage.Swept) error {
	var gone, later columnsOf
	for _, c := range found {
		switch {
		case !c.gone:
			later.add(c.key.Tenant, c.key.Operation, c.key.ID, int64(until))
		case swept.Records+int64(gone.n) < limit:
			gone.add(c.key.Tenant, c.key.Operation, c.key.ID, c.token, int64(until))
		default:
			swept.More = true
		}
	}
	if later.n > 0 {
		if _, err := s.sweepWrite(ctx, s.sql.sweepPast, &later); err != nil {
			return err
		}
	}
	if gone.n == 0 {
		return nil
	}
	deleted, err := s.sweepWrite(ctx, s.sql.sweepDrop, &gone)
	swept.Records += deleted
	return err
}

// sweepWrite has a statement take rows, in a transaction which its caller's end does
// not cut off, or under the plan for single keys in one for each. It gives how many
// rows of the table that wrote.
func (s *Store) sweepWrite(ctx context.Context, sql byKeys, rows *columnsOf) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.WriteTimeout)
	defer cancel()
	if s.plan == PlanSingle {
		return s.sweepEach(ctx, sql.one, rows)
	}
	for try := 0; ; try++ {
		var written int64
		err := s.with(ctx, tripSweep, func(ctx context.Context, conn *pgxpool.Conn) error {
			tag, err := conn.Exec(ctx, sql.of(rows.n), rows.args()...)
			written = tag.RowsAffected()
			return err
		})
		if err == nil {
			return written, nil
		}
		if fateOf(err) != collided || try+1 == maxTries || ctx.Err() != nil {
			return 0, unavailable("sweeping", err)
		}
		s.counters.retried(err)
		pause(ctx, try)
	}
}

// sweepEach leaves to the next sweep what others got in the way of. It takes half of
// the places to write, so that it keeps up with those who begin and settle, and they
// go on meanwhile.
func (s *Store) sweepEach(ctx context.Context, sql string, rows *columnsOf) (written int64, fault error) {
	all := make([]*statement, rows.n)
	for i := range all {
		all[i] = &statement{sql: sql, args: rows.row(i)}
	}
	var mu sync.Mutex
	spread(ctx, s.writers, all, maxPipelined, cap(s.writers)/2, func(some []*statement, err error) {
		if err == nil {
			err = s.with(ctx, tripSweep, func(ctx context.Context, conn *pgxpool.Conn) error {
				return pipelined(ctx, conn.Conn(), some)
			})
		}
		mu.Lock()
		defer mu.Unlock()
		for _, st := range some {
			switch {
			case st.sent && st.err == nil:
				written += st.rows
			case st.sent && fateOf(st.err) != collided:
				err = st.err
			}
		}
		if err != nil {
			fault = unavailable("sweeping", err)
		}
	})
	return written, fault
}
