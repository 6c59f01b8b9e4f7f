package pebble

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// lookup finds the records of one round.
//
// It is an iterator, not Pebble's Get, because Get does not ask the Bloom filters of
// the last level, where nine tenths of a large store lie: each Begin of a new key,
// which is what most are, would read an index block and a data block of a random
// place only to find nothing there. And one iterator serves all keys of a round.
type lookup struct {
	iter *pebble.Iterator
}

// record gives the record of key, which lies at recordKey, nil for none, and its
// size on disk.
func (l *lookup) record(db *pebble.DB, key oncekeeper.Key, recordKey []byte) (*oncekeeper.KeyRecord, int, error) {
	if l.iter == nil {
		var err error
		l.iter, err = db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceRecord}, UpperBound: []byte{spaceRecord + 1}, UseL6Filters: true})
		if err != nil {
			return nil, 0, err
		}
	}
	if !l.iter.SeekPrefixGE(recordKey) || !bytes.Equal(l.iter.Key(), recordKey) {
		return nil, 0, l.iter.Error()
	}
	value, err := l.iter.ValueAndErr()
	if err != nil {
		return nil, 0, err
	}
	rec, err := codec.Decode(key, value)
	return rec, len(value), err
}

// close ends it. What went wrong was told by record, for its key alone.
func (l *lookup) close() {
	if l.iter != nil {
		_ = l.iter.Close()
	}
}
