package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Read implements storage.Store.
func (s *Store) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	var found map[oncekeeper.Key]*oncekeeper.KeyRecord
	var now oncekeeper.Instant
	err := s.read(ctx, tripRead, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		found, now, err = s.recordsOn(ctx, conn, keys)
		return err
	})
	if err != nil {
		return storage.Snapshot{}, err
	}
	snapshot := storage.Snapshot{Now: now, Records: make([]*oncekeeper.KeyRecord, len(keys))}
	for i, key := range keys {
		if rec := found[key]; rec != nil && !lifecycle.Gone(rec, now) {
			snapshot.Records[i] = rec
		}
	}
	return snapshot, nil
}

// records is Read for the store itself: with what is gone and not yet swept.
func (s *Store) records(ctx context.Context, keys []oncekeeper.Key) (found map[oncekeeper.Key]*oncekeeper.KeyRecord, now oncekeeper.Instant, err error) {
	err = s.with(ctx, tripLook, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		found, now, err = s.recordsOn(ctx, conn, keys)
		return err
	})
	return found, now, err
}

// recordsOn reads the rows, and the clock behind them: no record is from after the
// moment that it gives. What it gives is durable once it returns.
func (s *Store) recordsOn(ctx context.Context, conn *pgxpool.Conn, keys []oncekeeper.Key) (map[oncekeeper.Key]*oncekeeper.KeyRecord, oncekeeper.Instant, error) {
	var columns columnsOf
	found := make(map[oncekeeper.Key]*oncekeeper.KeyRecord, len(keys))
	for _, key := range keys {
		if _, twice := found[key]; !twice {
			found[key] = nil
			columns.addKey(key)
		}
	}
	b := &pgx.Batch{}
	n := s.queueRead(b, &columns, s.sql.read)
	b.Queue(s.sql.seen)
	br := conn.SendBatch(ctx, b)
	var now oncekeeper.Instant
	err := eachOf(br, n, func(rows pgx.Rows) error {
		r, err := scanRecord(rows)
		if err == nil {
			found[r.rec.Key] = r.rec
		}
		return err
	})
	if err == nil {
		now, err = seen(br)
	}
	err = closed(br, err)
	return found, now, err
}

// seen takes the answer to seenSQL. What a server that is read-only gives is none:
// it was demoted, and another may know more.
func seen(br pgx.BatchResults) (now oncekeeper.Instant, err error) {
	var readOnly, waits bool
	if err = br.QueryRow().Scan(&now, &readOnly, &waits); err == nil && readOnly {
		err = errReadOnly
	}
	return now, err
}

// fewKeys are read one by one under the plan for single keys, and more by one
// statement that asks every node.
const fewKeys = 16

// queueRead adds what reads keys to a batch, and gives how many statements it is.
func (s *Store) queueRead(b *pgx.Batch, keys *columnsOf, sql byKeys) int {
	if s.plan == PlanSingle && keys.n <= fewKeys {
		for i := range keys.n {
			b.Queue(sql.one, keys.row(i)...)
		}
		return keys.n
	}
	if keys.n == 0 {
		return 0
	}
	keys.queue(b, sql)
	return 1
}
