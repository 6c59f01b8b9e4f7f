package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// maxPipelined bounds how many statements are under way on one connection: one
// that waits keeps those behind it waiting.
const maxPipelined = 16

// applyEach is applyQuick under the plan for single keys: each of all is a
// statement and a transaction by itself, and what becomes of it touches no other.
func (s *Store) applyEach(ctx context.Context, all []*work) (left []*work) {
	var mu sync.Mutex
	var untaken []*work
	spread(ctx, s.writers, all, maxPipelined, cap(s.writers), func(some []*work, none error) {
		if none != nil {
			s.fail(some, none)
			return
		}
		not, rest := s.tryEach(ctx, some)
		mu.Lock()
		defer mu.Unlock()
		untaken, left = append(untaken, not...), append(left, rest...)
	})
	return append(left, s.look(ctx, untaken)...)
}

// spread has do take all, size at a time and so many at once where there are places,
// and tells it where there was none before ctx ended.
func spread[T any](ctx context.Context, places chan struct{}, all []T, size, atOnce int, do func(some []T, none error)) {
	take := func(some []T) {
		select {
		case places <- struct{}{}:
			do(some, nil)
			<-places
		case <-ctx.Done():
			do(some, context.Cause(ctx))
		}
	}
	if len(all) <= size {
		if len(all) > 0 {
			take(all)
		}
		return
	}
	var done sync.WaitGroup
	defer done.Wait()
	next := make(chan []T)
	defer close(next)
	for range min(max(1, atOnce), (len(all)+size-1)/size) {
		done.Go(func() {
			for some := range next {
				take(some)
			}
		})
	}
	for some := range slices.Chunk(all, size) {
		next <- some
	}
}

// tryEach gives what its statements did not take, and what is to be judged under its
// lock.
func (s *Store) tryEach(ctx context.Context, all []*work) (untaken, left []*work) {
	sent := s.cfg.elapsed()
	quick := make([]quickly, len(all))
	var statements []*statement
	for i, w := range all {
		if err := quick[i].prepare(s.sql, w); err != nil {
			s.fail(all[i:i+1], err)
			continue
		}
		statements = append(statements, &quick[i].statement)
	}
	err := s.with(ctx, tripFast, func(ctx context.Context, conn *pgxpool.Conn) error {
		return pipelined(ctx, conn.Conn(), statements)
	})
	took := s.cfg.elapsed() - sent
	for i, w := range all {
		q, one := &quick[i], all[i:i+1]
		none := (*noConnection)(nil)
		switch {
		case q.sql == "":
		case errors.As(err, &none):
			s.fail(one, err)
		case !q.sent:
			left = append(left, w) // the connection was of no use: the next one may be
		case q.err == nil:
			if res, ok := q.answer(w, took); ok {
				*w.calls[0].result = res
				s.counters.answered(pathFast, w)
			} else {
				untaken = append(untaken, w)
			}
		case errors.Is(q.err, errUnreplicated) || fateOf(q.err) == refused:
			s.fail(one, q.err)
		default:
			if fateOf(q.err) == unknown {
				s.lostAnswer(q.err)
				doubted(one)
			} else {
				s.counters.retried(q.err)
			}
			left = append(left, w)
		}
	}
	return untaken, left
}

// quickly is a statement for one Begin or settlement, and the row that it gave.
type quickly struct {
	statement
	rec *oncekeeper.KeyRecord
	at  oncekeeper.Instant
	got bool
}

func (q *quickly) prepare(sql statements, w *work) (err error) {
	var columns columnsOf
	switch c := w.calls[0].cmd.(type) {
	case lifecycle.Begin:
		err = addBegin(&columns, c)
		q.sql = sql.begin.one
		q.scan = func(rows pgx.Rows) (err error) {
			_, q.at, _, err = begun(rows)
			q.got = true
			return err
		}
	case lifecycle.Settle:
		err = addSettle(&columns, c)
		q.sql = sql.settle.one
		q.scan = func(rows pgx.Rows) error {
			r, err := scanRecord(rows)
			q.rec, q.got = r.rec, true
			return err
		}
	}
	if err != nil {
		q.sql = ""
		return err
	}
	q.args = columns.args()
	return nil
}

// answer gives what the statement did, where it did something, and took so long.
func (q *quickly) answer(w *work, took time.Duration) (storage.Result, bool) {
	switch c := w.calls[0].cmd.(type) {
	case lifecycle.Begin:
		if q.got {
			return firstGrant(c, q.at, took)
		}
	case lifecycle.Settle:
		if q.got {
			return settled(q.rec, c), true
		}
	}
	return storage.Result{}, false
}
