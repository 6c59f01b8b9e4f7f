package pebble

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// sweepBatch is how many records one round deletes at the most, so that a sweep
// never holds up other calls for long.
const sweepBatch = 256

// Sweep implements storage.Store.
func (s *Store) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	// A record that is not gone yet is nobody's to delete.
	q.Grace = max(0, q.Grace)
	var swept storage.Swept
	s.scans.RLock()
	defer s.scans.RUnlock()
	view, now, err := s.view(ctx)
	if err != nil {
		return swept, err
	}
	err = s.guarded(func() error {
		return errors.Join(s.sweep(ctx, view, q, now, &swept), view.Close())
	})
	return swept, err
}

// sweep finds candidates in view, by the index, and has them deleted a batch at a
// time.
func (s *Store) sweep(ctx context.Context, view *pebble.Snapshot, q storage.SweepQuery, now oncekeeper.Instant, swept *storage.Swept) error {
	iter, err := view.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte{spaceExpiry},
		UpperBound: indexKey(spaceExpiry, max(0, now.Add(-q.Grace))+1, oncekeeper.Key{}),
	})
	if err != nil {
		return s.scanError(ctx, err)
	}
	defer func() { _ = iter.Close() }()
	var found []oncekeeper.Key
	for valid := iter.First(); valid; valid = iter.Next() {
		key, err := keyOfIndex(iter.Key())
		if err != nil {
			return s.unavailable("reading an index", err)
		}
		if !inScope(key, q.Tenant, q.Operation) {
			continue
		}
		if swept.Records+int64(len(found)) >= int64(q.Limit) {
			swept.More = true
			break
		}
		if found = append(found, key); len(found) == sweepBatch {
			if err := s.sweepKeys(ctx, found, q, swept); err != nil {
				return err
			}
			found = found[:0]
		}
	}
	if err := iter.Error(); err != nil {
		return s.scanError(ctx, err)
	}
	return s.sweepKeys(ctx, found, q, swept)
}

func (s *Store) sweepKeys(ctx context.Context, keys []oncekeeper.Key, q storage.SweepQuery, swept *storage.Swept) error {
	if len(keys) == 0 {
		return nil
	}
	if q.DryRun {
		swept.Records += int64(len(keys))
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.beforeDelete != nil {
		s.beforeDelete()
	}
	t := &sweepTask{keys: keys, query: q}
	if err := s.do(t); err != nil {
		return err
	}
	swept.Records += t.deleted
	return t.err
}

// sweepTask deletes those of keys whose records are still gone, and for long
// enough, when the write is made.
type sweepTask struct {
	keys    []oncekeeper.Key
	query   storage.SweepQuery
	deleted int64
	err     error
}

func (t *sweepTask) run(r *round) {
	for _, key := range t.keys {
		rec, err := r.get(key)
		if err != nil {
			t.err = err
			return
		}
		if rec != nil && lifecycle.Gone(rec, r.now.Add(-t.query.Grace)) {
			if t.err = r.put(key, nil, r.store.roomToSweep()); t.err != nil {
				return
			}
			t.deleted++
		}
	}
}

func (t *sweepTask) finish(err error) {
	if err != nil {
		t.deleted, t.err = 0, err
	}
}

func (t *sweepTask) bytes() int { return 512 * len(t.keys) }
