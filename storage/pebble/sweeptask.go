package pebble

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// candidate is what a sweep found in the index by expiry.
type candidate struct {
	entry []byte
	key   oncekeeper.Key
	// settled as the index told it.
	settled bool
}

func candidateAt(iter *pebble.Iterator) (candidate, error) {
	key, err := keyOfIndex(iter.Key())
	if err != nil {
		return candidate{}, err
	}
	mark, err := iter.ValueAndErr()
	return candidate{entry: bytes.Clone(iter.Key()), key: key, settled: len(mark) > 0}, err
}

// sweepTask deletes those of found whose records are still gone, and for long
// enough, when the write is made.
//
// What the index calls settled is deleted without its record being read, which lies
// anywhere on the disk and would hold up every call behind it: its entry still being
// there is proof that the record is the one that was found, since no record changes
// without its entry, and one whose entry is due is gone.
type sweepTask struct {
	found   []candidate
	query   storage.SweepQuery
	deleted int64
	err     error
}

func (t *sweepTask) run(r *round) {
	iter, err := r.store.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceExpiry}, UpperBound: []byte{spaceExpiry + 1}})
	if err != nil {
		t.err = r.store.unavailable("reading an index", err)
		return
	}
	for _, c := range t.found {
		if t.err = t.delete(r, iter, c); t.err != nil {
			break
		}
	}
	if err := errors.Join(iter.Error(), iter.Close()); err != nil && t.err == nil {
		t.err = r.store.unavailable("reading an index", err)
	}
}

func (t *sweepTask) delete(r *round, iter *pebble.Iterator, c candidate) error {
	if err := r.hasRoom(r.store.roomToSweep()); err != nil {
		return r.store.unavailable("sweeping", err)
	}
	if _, seen := r.seen[c.key]; c.settled && !seen {
		if !iter.SeekGE(c.entry) || !bytes.Equal(iter.Key(), c.entry) {
			return nil
		}
		r.seen[c.key] = &entry{key: c.key, recordKey: r.recordKey(c.key), before: settledAs(c)}
	} else {
		rec, err := r.get(c.key)
		if err != nil || rec == nil || !lifecycle.Gone(rec, r.now.Add(-t.query.Grace)) {
			return err
		}
	}
	t.deleted++
	return r.put(c.key, nil, r.store.roomToSweep())
}

// settledAs gives what is known of a record that was not read: what the indexes
// have of it.
func settledAs(c candidate) *oncekeeper.KeyRecord {
	return &oncekeeper.KeyRecord{Key: c.key, State: oncekeeper.StoredCompleted, Expires: instantOfIndex(c.entry)}
}

func (t *sweepTask) finish(err error) {
	if err != nil {
		t.deleted, t.err = 0, err
	}
}

func (t *sweepTask) bytes() int { return 512 * len(t.found) }
