package pebble

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
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
		LowerBound: s.swept.from(),
		UpperBound: indexKey(spaceExpiry, max(0, now.Add(-q.Grace))+1, oncekeeper.Key{}),
	})
	if err != nil {
		return s.scanError(ctx, err)
	}
	defer func() { _ = iter.Close() }()
	found := make([]candidate, 0, sweepBatch)
	for valid := iter.First(); valid; valid = iter.Next() {
		c, err := candidateAt(iter)
		if err != nil {
			return s.unavailable("reading an index", err)
		}
		if !inScope(c.key, q.Tenant, q.Operation) {
			continue
		}
		if swept.Records+int64(len(found)) >= int64(q.Limit) {
			swept.More = true
			break
		}
		if found = append(found, c); len(found) == sweepBatch {
			if err := s.sweepFound(ctx, found, q, swept); err != nil {
				return err
			}
			found = found[:0]
			s.swept.upTo(iter.Key(), q)
		}
	}
	if err := iter.Error(); err != nil {
		return s.scanError(ctx, err)
	}
	if err := s.sweepFound(ctx, found, q, swept); err != nil {
		return err
	}
	if swept.More {
		s.swept.upTo(iter.Key(), q)
	}
	return nil
}

func (s *Store) sweepFound(ctx context.Context, found []candidate, q storage.SweepQuery, swept *storage.Swept) error {
	if len(found) == 0 {
		return nil
	}
	if q.DryRun {
		swept.Records += int64(len(found))
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.beforeDelete != nil {
		s.beforeDelete()
	}
	t := &sweepTask{found: found, query: q}
	if err := s.do(t); err != nil {
		return err
	}
	swept.Records += t.deleted
	return t.err
}
