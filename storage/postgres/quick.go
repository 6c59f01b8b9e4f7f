package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// waitedLong says whether an insert waited so long for another's that the grant is
// to be looked at again: its lease has been running meanwhile. A caller that counts
// it from when it asked has less of it, and renews it before it runs; so a short
// wait is like any other that an answer takes.
func waitedLong(d, lease time.Duration) bool { return d > max(2*time.Second, lease/4) }

// isQuick: beginSQL or settleSQL may do it. Two commands on one key are never in
// one statement.
func isQuick(w *work) bool {
	if len(w.calls) != 1 {
		return false
	}
	switch c := w.calls[0].cmd.(type) {
	case lifecycle.Begin:
		return true
	case lifecycle.Settle:
		// What is given back takes its number back, which settleSQL does not write.
		return settledState(c.As) != 0 && !c.NotRun
	default:
		return false
	}
}

// settledState is the state that settleSQL leaves, 0 where it does not do it.
func settledState(as oncekeeper.Settlement) oncekeeper.StoredState {
	switch as {
	case oncekeeper.SettledComplete:
		return oncekeeper.StoredCompleted
	case oncekeeper.SettledFinal:
		return oncekeeper.StoredFailed
	case oncekeeper.SettledRetryable:
		return oncekeeper.StoredReleased
	default:
		return 0
	}
}

// applyQuick takes fresh Begins and first settlements, in one transaction of two
// statements; answers from a plain read what changes nothing; and gives what is
// left.
func (s *Store) applyQuick(ctx context.Context, all []*work) (left []*work) {
	if len(all) == 0 {
		return nil
	}
	for try := range maxTries {
		var err error
		if left, err = s.tryQuick(ctx, all); err == nil {
			return s.look(ctx, left)
		}
		if none := (*noConnection)(nil); errors.As(err, &none) || ctx.Err() != nil || errors.Is(err, errUnreplicated) {
			s.fail(all, err)
			return nil
		}
		switch fateOf(err) {
		case unknown:
			s.lostAnswer(err)
			doubted(all)
			return all
		case refused:
			if len(all) > 1 && isOfOneCommand(err) {
				return append(s.applyQuick(ctx, all[:len(all)/2]), s.applyQuick(ctx, all[len(all)/2:])...)
			}
			s.fail(all, err)
			return nil
		default:
			s.counters.retried(err)
			pause(ctx, try)
		}
	}
	return all
}

func (s *Store) tryQuick(ctx context.Context, all []*work) ([]*work, error) {
	var begins, settles columnsOf
	byKey := make(map[oncekeeper.Key]*work, len(all))
	for _, w := range all {
		byKey[w.key] = w
		var err error
		switch c := w.calls[0].cmd.(type) {
		case lifecycle.Begin:
			err = addBegin(&begins, c)
		case lifecycle.Settle:
			err = addSettle(&settles, c)
		}
		if err != nil {
			return nil, err
		}
	}
	answers := make(map[*work]storage.Result, len(all))
	onBegun := func(rows pgx.Rows) error {
		key, at, written, err := begun(rows)
		if err != nil {
			return err
		}
		w := byKey[key]
		if res, ok := firstGrant(w.calls[0].cmd.(lifecycle.Begin), at, written.Sub(at)); ok {
			answers[w] = res
		}
		return nil
	}
	onSettled := func(rows pgx.Rows) error {
		r, err := scanRecord(rows)
		if err != nil {
			return err
		}
		w := byKey[r.rec.Key]
		answers[w] = settled(r.rec, w.calls[0].cmd.(lifecycle.Settle))
		return nil
	}
	err := s.with(ctx, tripFast, func(ctx context.Context, conn *pgxpool.Conn) error {
		switch {
		case begins.n == 1 && settles.n == 0:
			return lone(ctx, conn, s.sql.begin.one, begins.args(), onBegun)
		case begins.n == 0 && settles.n == 1:
			return lone(ctx, conn, s.sql.settle.one, settles.args(), onSettled)
		}
		b := &pgx.Batch{}
		if begins.n > 0 {
			begins.queue(b, s.sql.begin)
		}
		if settles.n > 0 {
			settles.queue(b, s.sql.settle)
		}
		br := conn.SendBatch(ctx, b)
		var err error
		if begins.n > 0 {
			err = each(br, onBegun)
		}
		if err == nil && settles.n > 0 {
			err = each(br, onSettled)
		}
		return closed(br, err)
	})
	if err != nil {
		return nil, err
	}
	var left []*work
	for _, w := range all {
		if res, ok := answers[w]; ok {
			*w.calls[0].result = res
			s.counters.answered(pathFast, w)
		} else {
			left = append(left, w)
		}
	}
	return left, nil
}

// lone runs a statement for one key, which always goes by the primary key: where
// nobody is between who would mix its name up, it is planned once.
func lone(ctx context.Context, conn *pgxpool.Conn, sql string, args []any, scan func(pgx.Rows) error) error {
	if conn.Conn().PgConn().CustomData()[named] == true {
		args = append([]any{pgx.QueryExecModeCacheStatement}, args...)
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return scanEach(rows, scan)
}

func addBegin(to *columnsOf, c lifecycle.Begin) error {
	granted, err := grantPart(&oncekeeper.KeyRecord{
		Fingerprint: c.Fingerprint, FingerprintScheme: c.FingerprintScheme, CallID: c.CallID, Holder: c.Holder, Principal: c.Principal,
		TraceParent: c.TraceParent, Attempt: 1, Granted: c.Grant,
	})
	to.add(c.Key.Tenant, c.Key.Operation, c.Key.ID,
		micros(c.Grant.Lease), micros(c.Grant.Retention), micros(c.Grant.UnsettledRetention), c.Grant.Hold, granted)
	return err
}

func addSettle(to *columnsOf, c lifecycle.Settle) error {
	outcome, err := outcomePart(c.Response, c.Status, oncekeeper.OriginAttempt)
	to.add(c.Key.Tenant, c.Key.Operation, c.Key.ID,
		c.Token, int16(settledState(c.As)), int16(c.As), micros(c.Retention), outcome,
		int16(oncekeeper.StoredPending), int16(oncekeeper.SettledNot))
	return err
}

// begun reads a row of beginSQL: the moment of the grant, and when it was written.
func begun(rows pgx.Rows) (key oncekeeper.Key, at, written oncekeeper.Instant, err error) {
	err = rows.Scan(&key.Tenant, &key.Operation, &key.ID, &at, &written)
	return key, at, written, err
}

// firstGrant is what beginSQL did for c, at a moment that was so long ago. The
// record is the one that lifecycle makes at that moment, which is the one that the
// statement wrote. It gives none where c is left to be judged again, by its call
// id: the same grant, with what is left of it.
func firstGrant(c lifecycle.Begin, at oncekeeper.Instant, ago time.Duration) (res storage.Result, ok bool) {
	rec, verdict := lifecycle.Apply(nil, c, at)
	if !waitedLong(ago, c.Grant.Lease) {
		return storage.Result{Verdict: verdict, Record: rec, Now: at}, true
	}
	return storage.Result{Verdict: verdict, Record: rec, Now: at.Add(ago)}, c.CallID == ""
}

// settled takes a row of settleSQL, for c.
func settled(rec *oncekeeper.KeyRecord, c lifecycle.Settle) storage.Result {
	rec.Response, rec.Status, rec.Origin = c.Response, c.Status, oncekeeper.OriginAttempt
	return storage.Result{Verdict: lifecycle.Settled, Record: rec, Now: rec.Settled}
}

// lookBatch is how many records a look has in memory at once.
const lookBatch = 64

// look reads all without a lock, answers those that change nothing, and gives the
// rest.
func (s *Store) look(ctx context.Context, all []*work) (left []*work) {
	for some := range slices.Chunk(all, lookBatch) {
		keys := make([]oncekeeper.Key, len(some))
		for i, w := range some {
			keys[i] = w.key
		}
		found, now, err := s.records(ctx, keys)
		if err != nil {
			left = append(left, some...) // the locks find out what is wrong, and try again
			continue
		}
		if s.afterLook != nil {
			s.afterLook()
		}
		for _, w := range some {
			rec := found[w.key]
			if next, results := judge(w, rec, now); next == rec {
				w.answer(results)
				s.counters.answered(pathLook, w)
			} else {
				left = append(left, w)
			}
		}
	}
	return left
}
