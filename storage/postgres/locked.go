package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// maxLost bounds how often a commit of one batch may be lost before it is left at
// that.
const maxLost = 2

// applyLocked judges all under the locks of their keys: in one transaction, or
// under the plan for single keys each in its own.
func (s *Store) applyLocked(ctx context.Context, all []*work) {
	if s.plan == PlanSingle {
		spread(ctx, s.writers, all, 1, cap(s.writers), func(one []*work, none error) {
			if none != nil {
				s.fail(one, none)
				return
			}
			s.lockAndApply(ctx, one)
		})
		return
	}
	s.lockAndApply(ctx, all)
}

func (s *Store) lockAndApply(ctx context.Context, all []*work) {
	lost := 0
	for try := 0; len(all) > 0; try++ {
		err := s.tryLocked(ctx, all)
		if err == nil {
			s.counters.answered(pathLocked, all...)
			return
		}
		none, undone := (*noConnection)(nil), (*rolledBack)(nil)
		isUndone := errors.As(err, &undone)
		switch {
		case errors.As(err, &none) || ctx.Err() != nil || errors.Is(err, errUnreplicated) && !isUndone || try+1 == maxTries:
			s.fail(all, err)
			return
		case errors.Is(err, errOvertaken):
			s.counters.retried(err)
			continue
		}
		switch fateOf(err) {
		case unknown:
			if !isUndone {
				s.lostAnswer(err)
				doubted(all)
			}
			if lost++; lost > maxLost {
				s.fail(all, err)
				return
			}
		case refused:
			if len(all) > 1 && isOfOneCommand(err) {
				s.lockAndApply(ctx, all[:len(all)/2])
				s.lockAndApply(ctx, all[len(all)/2:])
				return
			}
			s.fail(all, err)
			return
		}
		s.counters.retried(err)
		pause(ctx, try)
	}
}

// errOvertaken: another made a record between the look and the insert.
var errOvertaken = errors.New("a record came to be meanwhile")

// rolledBack: nothing was applied, although the fault may be one that leaves open
// whether it was. A distributed engine has such for a node out of reach.
type rolledBack struct{ error }

func (e *rolledBack) Unwrap() error { return e.error }

func (s *Store) tryLocked(ctx context.Context, all []*work) error {
	answers := make([][]storage.Result, len(all))
	err := s.with(ctx, tripLocked, func(ctx context.Context, conn *pgxpool.Conn) error {
		err := s.inTransaction(ctx, conn, all, answers)
		if err != nil && !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
			if _, failed := conn.Exec(ctx, "ROLLBACK"); failed == nil {
				err = &rolledBack{err}
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, w := range all {
		w.answer(answers[i])
	}
	return nil
}

func (s *Store) inTransaction(ctx context.Context, conn *pgxpool.Conn, all []*work, answers [][]storage.Result) error {
	found, now, err := s.lock(ctx, conn, all)
	if err != nil {
		return err
	}
	if now, err = s.takeMissing(ctx, conn, all, found, now); err != nil {
		return err
	}
	var writes, removes columnsOf
	for i, w := range all {
		before, stored := found[w.key]
		var after *oncekeeper.KeyRecord
		after, answers[i] = judge(w, before.rec, now)
		switch {
		case after != before.rec:
			if err := addWrite(&writes, before, after, now); err != nil {
				return err
			}
		case stored && before.rec == nil:
			removes.addKey(w.key)
		}
	}
	b := &pgx.Batch{}
	if writes.n > 0 {
		writes.queue(b, s.sql.write)
	}
	if removes.n > 0 {
		removes.queue(b, s.sql.remove)
	}
	b.Queue("COMMIT")
	return conn.SendBatch(ctx, b).Close()
}

// lock gives the rows of all that are stored, locked, and the moment when they
// were: the clock is read once no wait is left.
func (s *Store) lock(ctx context.Context, conn *pgxpool.Conn, all []*work) (map[oncekeeper.Key]row, oncekeeper.Instant, error) {
	var keys columnsOf
	for _, w := range all {
		keys.addKey(w.key)
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	keys.queue(b, s.sql.lock)
	b.Queue(s.sql.clock)
	br := conn.SendBatch(ctx, b)
	found := make(map[oncekeeper.Key]row, len(all))
	var now oncekeeper.Instant
	err := func() error {
		if _, err := br.Exec(); err != nil {
			return err
		}
		err := each(br, func(rows pgx.Rows) error {
			r, err := scanRecord(rows)
			if err == nil {
				found[r.rec.Key] = r
			}
			return err
		})
		if err != nil {
			return err
		}
		return br.QueryRow().Scan(&now)
	}()
	err = closed(br, err)
	return found, now, err
}

// takeMissing takes the keys that have no row and are begun, so that nobody else
// can begin them meanwhile, and gives the moment when they were taken.
func (s *Store) takeMissing(ctx context.Context, conn *pgxpool.Conn, all []*work, found map[oncekeeper.Key]row, now oncekeeper.Instant) (oncekeeper.Instant, error) {
	var keys columnsOf
	for _, w := range all {
		if _, stored := found[w.key]; !stored && w.begins() {
			keys.addKey(w.key)
		}
	}
	if keys.n == 0 {
		return now, nil
	}
	b := &pgx.Batch{}
	keys.queue(b, s.sql.place)
	b.Queue(s.sql.clock)
	br := conn.SendBatch(ctx, b)
	taken := 0
	err := each(br, func(rows pgx.Rows) error {
		var key oncekeeper.Key
		taken++
		err := rows.Scan(&key.Tenant, &key.Operation, &key.ID)
		found[key] = row{}
		return err
	})
	if err == nil {
		err = br.QueryRow().Scan(&now)
	}
	err = closed(br, err)
	if err == nil && taken < keys.n {
		err = errOvertaken
	}
	return now, err
}

func (w *work) begins() bool {
	for _, c := range w.calls {
		if _, is := c.cmd.(lifecycle.Begin); is {
			return true
		}
	}
	return false
}

func addWrite(to *columnsOf, before row, rec *oncekeeper.KeyRecord, now oncekeeper.Instant) error {
	granted, err := grantPart(rec)
	if err != nil {
		return err
	}
	outcome, err := outcomePart(rec.Response, rec.Status, rec.Origin)
	to.add(rec.Key.Tenant, rec.Key.Operation, rec.Key.ID,
		rec.Token, rec.Revision, int64(rec.Created), int64(rec.LeaseEnd), int64(rec.UnsettledUntil),
		int64(rec.Expires), int64(rec.Settled), sweepAt(before, rec, now),
		micros(rec.Granted.Lease), micros(rec.Granted.Retention), int16(rec.State), int16(rec.Last),
		rec.Takeover, rec.Granted.Hold, granted, outcome)
	return err
}

// sweepAt gives when a sweep may first find rec gone, never later than it is: for
// a new grant, were it settled at once.
func sweepAt(before row, rec *oncekeeper.KeyRecord, now oncekeeper.Instant) int64 {
	at := before.sweepAt
	if before.rec == nil || before.rec.Token != rec.Token {
		at = int64(now.Add(max(rec.Granted.Retention, rec.Granted.Lease)))
	}
	if rec.Expires != 0 {
		at = min(at, int64(rec.Expires))
	}
	return at
}
