package pebble

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// round is one turn of the committer: a moment, what its tasks read at it, and
// what they wrote. Tasks of a round see each other's writes, in order.
type round struct {
	store  *Store
	now    oncekeeper.Instant
	seen   map[oncekeeper.Key]*entry
	writes []*entry
	// read is how many bytes of records the round holds.
	read int
	// free is how much of the disk is, asked once a round.
	free    uint64
	freeErr error
	asked   bool
}

// entry is a record as the round found it and as it leaves it; nil for none.
type entry struct {
	key           oncekeeper.Key
	before, after *oncekeeper.KeyRecord
	encoded       []byte // after
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
		for rest := batch; len(rest) > 0; {
			ran, err := s.commitRound(rest)
			for _, q := range rest[:ran] {
				q.task.finish(err)
				close(q.done)
			}
			rest = rest[ran:]
		}
		clear(batch)
	}
}

// commitRound runs the first tasks of batch, as many as a round may hold, at
// least one, and gives how many.
func (s *Store) commitRound(batch []queued) (ran int, err error) {
	if f := s.failure.Load(); f != nil {
		return len(batch), f.err
	}
	r := &round{store: s, now: s.clock.now(), seen: make(map[oncekeeper.Key]*entry, len(batch))}
	err = s.guarded(func() error {
		for ran < len(batch) && (ran == 0 || r.read < maxRoundRead) {
			ran++
			batch[ran-1].task.run(r)
		}
		return r.commit()
	})
	return ran, err
}

// get gives the record of key as the round sees it.
func (r *round) get(key oncekeeper.Key) (*oncekeeper.KeyRecord, error) {
	if e, ok := r.seen[key]; ok {
		return e.after, nil
	}
	rec, size, err := readRecord(r.store.db, key)
	if err != nil {
		return nil, r.store.unavailable("reading a record", err)
	}
	r.read += size
	r.seen[key] = &entry{key: key, before: rec, after: rec}
	return rec, nil
}

// put replaces the record of key, which the round has read, where so much of the
// disk is free; nil deletes it. Where it gives an error nothing has changed.
func (r *round) put(key oncekeeper.Key, rec *oncekeeper.KeyRecord, room uint64) error {
	if err := r.hasRoom(room); err != nil {
		return r.store.unavailable("writing a record", err)
	}
	e := r.seen[key]
	var encoded []byte
	if rec != nil {
		var err error
		if encoded, err = codec.Append(nil, rec); err != nil {
			return r.store.unavailable("writing a record", err)
		}
	}
	e.after, e.encoded = rec, encoded
	if !e.written {
		e.written = true
		r.writes = append(r.writes, e)
	}
	return nil
}

func (r *round) hasRoom(need uint64) error {
	if !r.asked {
		r.asked = true
		r.free, r.freeErr = r.store.freeBytes()
	}
	if r.freeErr != nil {
		return r.freeErr
	}
	return enoughRoom(r.free, need)
}

// commit writes what the round changed and returns once it is on disk. A write
// that fails is the store's end.
func (r *round) commit() error {
	if len(r.writes) == 0 {
		return nil
	}
	b := r.store.db.NewBatch()
	for _, e := range r.writes {
		if err := e.writeTo(b); err != nil {
			return r.store.fail(errors.Join(err, b.Close()))
		}
	}
	var moment [8]byte
	binary.BigEndian.PutUint64(moment[:], uint64(r.now))
	if err := b.Set(metaClock, moment[:], nil); err != nil {
		return r.store.fail(errors.Join(err, b.Close()))
	}
	since := r.store.cfg.Clock.Monotonic()
	if err := r.store.db.Apply(b, pebble.Sync); err != nil {
		return r.store.fail(err)
	}
	r.store.counters.committed(len(r.writes), r.store.cfg.Clock.Monotonic()-since)
	if err := b.Close(); err != nil {
		return r.store.fail(err)
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
		if was[i].at != 0 && was[i].at != is[i].at {
			if err := b.Delete(indexKey(was[i].space, was[i].at, e.key), nil); err != nil {
				return err
			}
		}
		if is[i].at != 0 {
			if err := b.Set(indexKey(is[i].space, is[i].at, e.key), is[i].value(), nil); err != nil {
				return err
			}
		}
	}
	if e.after == nil {
		return b.Delete(recordKey(e.key), nil)
	}
	return b.Set(recordKey(e.key), e.encoded, nil)
}

type indexEntry struct {
	space byte
	at    oncekeeper.Instant
	// settled is told with an entry by expiry.
	settled bool
}

func (e indexEntry) value() []byte {
	if e.settled {
		return settledMark
	}
	return nil
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
		return entries
	}
	entries[0].settled = lifecycle.Gone(rec, rec.Expires)
	return entries
}

// readRecord gives the record of key, nil for none, and its size on disk.
func readRecord(from pebble.Reader, key oncekeeper.Key) (*oncekeeper.KeyRecord, int, error) {
	value, closer, err := from.Get(recordKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	rec, err := codec.Decode(key, value)
	return rec, len(value), errors.Join(err, closer.Close())
}
