package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// round is one turn of the committer: a moment, what its tasks read at it, and
// what they wrote. Tasks of a round see each other's writes, in order.
type round struct {
	store  *Store
	now    oncekeeper.Instant
	seen   map[oncekeeper.Key]*entry
	writes []*entry
}

// entry is a record as the round found it and as it leaves it; nil for none.
type entry struct {
	key           oncekeeper.Key
	before, after *oncekeeper.KeyRecord
	written       bool
}

func (s *Store) commitLoop() {
	defer close(s.done)
	var batch []queued
	for {
		var ok bool
		if batch, ok = s.queue.take(batch); !ok {
			return
		}
		err := s.commitRound(batch)
		for _, q := range batch {
			q.task.finish(err)
			close(q.done)
		}
		clear(batch)
	}
}

func (s *Store) commitRound(batch []queued) error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	r := &round{store: s, now: s.clock.now(), seen: make(map[oncekeeper.Key]*entry, len(batch))}
	for _, q := range batch {
		q.task.run(r)
	}
	return r.commit()
}

// get gives the record of key as the round sees it.
func (r *round) get(key oncekeeper.Key) (*oncekeeper.KeyRecord, error) {
	e, err := r.entry(key)
	if err != nil {
		return nil, err
	}
	return e.after, nil
}

func (r *round) entry(key oncekeeper.Key) (*entry, error) {
	if e, ok := r.seen[key]; ok {
		return e, nil
	}
	rec, err := readRecord(r.store.db, key)
	if err != nil {
		return nil, r.store.unreadable(err)
	}
	e := &entry{key: key, before: rec, after: rec}
	r.seen[key] = e
	return e, nil
}

// put replaces the record of key, which the round has read; nil deletes it.
func (r *round) put(key oncekeeper.Key, rec *oncekeeper.KeyRecord) {
	e := r.seen[key]
	e.after = rec
	if !e.written {
		e.written = true
		r.writes = append(r.writes, e)
	}
}

func (r *round) commit() error {
	if len(r.writes) == 0 {
		return nil
	}
	if err := r.store.hasRoom(); err != nil {
		return err
	}
	b := r.store.db.NewBatch()
	for _, e := range r.writes {
		if err := e.writeTo(b); err != nil {
			return errors.Join(r.store.unreadable(err), b.Close())
		}
	}
	var moment [8]byte
	binary.BigEndian.PutUint64(moment[:], uint64(r.now))
	if err := b.Set(metaClock, moment[:], nil); err != nil {
		return errors.Join(r.store.unreadable(err), b.Close())
	}
	if err := r.store.applySynced(b); err != nil {
		return err
	}
	r.store.rounds.Add(1)
	if err := b.Close(); err != nil {
		return r.store.unreadable(err)
	}
	return nil
}

// writeTo brings the record and its index entries to what they are after.
func (e *entry) writeTo(b *pebble.Batch) error {
	was, is := indexEntries(e.before), indexEntries(e.after)
	for i := range was {
		if was[i] == is[i] {
			continue
		}
		if was[i].at != 0 {
			if err := b.Delete(indexKey(was[i].space, was[i].at, e.key), nil); err != nil {
				return err
			}
		}
		if is[i].at != 0 {
			if err := b.Set(indexKey(is[i].space, is[i].at, e.key), nil, nil); err != nil {
				return err
			}
		}
	}
	if e.after == nil {
		return b.Delete(recordKey(e.key), nil)
	}
	value, err := codec.Append(nil, e.after)
	if err != nil {
		return err
	}
	return b.Set(recordKey(e.key), value, nil)
}

type indexEntry struct {
	space byte
	at    oncekeeper.Instant
}

// indexEntries gives where rec stands in the indexes; at 0 for nowhere.
func indexEntries(rec *oncekeeper.KeyRecord) [2]indexEntry {
	entries := [2]indexEntry{{space: spaceExpiry}, {space: spacePending}}
	if rec == nil {
		return entries
	}
	entries[0].at = rec.Expires
	if rec.State == oncekeeper.StoredPending {
		entries[1].at = rec.LeaseEnd
	}
	return entries
}

func readRecord(from pebble.Reader, key oncekeeper.Key) (*oncekeeper.KeyRecord, error) {
	value, closer, err := from.Get(recordKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := codec.Decode(key, value)
	return rec, errors.Join(err, closer.Close())
}

// unreadable wraps a fault of reading or encoding: nothing was decided.
func (s *Store) unreadable(err error) error {
	s.cfg.Logger.Error("the embedded store met a fault", "dir", s.cfg.Dir, "error", err)
	return fmt.Errorf("%w: %w", oncekeeper.ErrStoreUnavailable, err)
}
