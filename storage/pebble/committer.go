package pebble

import (
	"encoding/binary"
	"errors"
	"runtime"

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
	// scratch is what encodings are made in, for as long as the round lasts.
	scratch []byte
	lookup  lookup
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
	recordKey     []byte
	before, after *oncekeeper.KeyRecord
	encoded       []byte // after
	written       bool
}

func (s *Store) commitLoop() {
	defer close(s.done)
	var batch []queued
	for {
		// Calls that have come and wait for a processor share this round rather than the
		// next; where there are none this takes no time.
		runtime.Gosched()
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
	r := &round{store: s, now: s.clock.now(), seen: make(map[oncekeeper.Key]*entry, len(batch)), scratch: s.scratch[:0]}
	err = s.guarded(func() error {
		for ran < len(batch) && (ran == 0 || r.read < maxRoundRead) {
			ran++
			batch[ran-1].task.run(r)
		}
		r.lookup.close()
		return r.commit()
	})
	if s.scratch = r.scratch; cap(s.scratch) > maxScratch {
		s.scratch = nil
	}
	return ran, err
}

// maxScratch bounds what one round leaves to the next.
const maxScratch = 4 << 20

// get gives the record of key as the round sees it.
func (r *round) get(key oncekeeper.Key) (*oncekeeper.KeyRecord, error) {
	if e, ok := r.seen[key]; ok {
		return e.after, nil
	}
	at := r.recordKey(key)
	rec := r.store.held.get(key)
	if rec == nil {
		var size int
		var err error
		if rec, size, err = r.lookup.record(r.store.db, key, at); err != nil {
			return nil, r.store.unavailable("reading a record", err)
		}
		r.read += size
		r.store.held.read(rec)
	}
	r.seen[key] = &entry{key: key, recordKey: at, before: rec, after: rec}
	return rec, nil
}

// recordKey is where the record of key lies, in the round's scratch.
func (r *round) recordKey(key oncekeeper.Key) []byte {
	from := len(r.scratch)
	r.scratch = appendRecordKey(r.scratch, key)
	return r.scratch[from:len(r.scratch):len(r.scratch)]
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
		from := len(r.scratch)
		grown, err := codec.Append(r.scratch, rec)
		if err != nil {
			return r.store.unavailable("writing a record", err)
		}
		r.scratch, encoded = grown, grown[from:len(grown):len(grown)]
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
	if err := r.writeTo(b); err != nil {
		return r.store.fail(errors.Join(err, b.Close()))
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
	for _, e := range r.writes {
		r.store.held.wrote(e.key, e.after)
	}
	r.store.counters.committed(len(r.writes), r.store.cfg.Clock.Monotonic()-since)
	if err := b.Close(); err != nil {
		return r.store.fail(err)
	}
	return nil
}

// writeTo brings records and their index entries to what they are after the round.
// One space follows the other, since neighbours are cheaper to write one after the
// other: the entries of a round lie beside each other in an index.
func (r *round) writeTo(b *pebble.Batch) error {
	for space := range indexes {
		for _, e := range r.writes {
			if err := r.writeIndex(b, e, space); err != nil {
				return err
			}
		}
	}
	for _, e := range r.writes {
		if err := e.writeRecord(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) writeIndex(b *pebble.Batch, e *entry, index int) error {
	was, is := indexEntries(e.before)[index], indexEntries(e.after)[index]
	if was == is {
		return nil
	}
	if was.at != 0 && was.at != is.at {
		if err := b.Delete(r.indexKey(was, e), nil); err != nil {
			return err
		}
	}
	if is.at == 0 {
		return nil
	}
	return b.Set(r.indexKey(is, e), is.value(), nil)
}

// indexKey is good until the next one, in the round's scratch.
func (r *round) indexKey(at indexEntry, e *entry) []byte {
	from := len(r.scratch)
	r.scratch = append(appendInstant(r.scratch, at.space, at.at), e.recordKey[1:]...)
	key := r.scratch[from:]
	r.scratch = r.scratch[:from]
	return key
}

func (e *entry) writeRecord(b *pebble.Batch) error {
	if e.after == nil {
		return b.Delete(e.recordKey, nil)
	}
	return b.Set(e.recordKey, e.encoded, nil)
}

// indexes is how many there are.
const indexes = 2

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
func indexEntries(rec *oncekeeper.KeyRecord) [indexes]indexEntry {
	entries := [indexes]indexEntry{{space: spaceExpiry}, {space: spacePending}}
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

// readRecord gives the record of key, which lies at recordKey; nil for none.
func readRecord(from pebble.Reader, key oncekeeper.Key, recordKey []byte) (*oncekeeper.KeyRecord, error) {
	value, closer, err := from.Get(recordKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := codec.Decode(key, value)
	return rec, errors.Join(err, closer.Close())
}
