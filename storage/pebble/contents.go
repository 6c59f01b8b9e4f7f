package pebble

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Contents is what a store holds.
type Contents struct {
	// Records, swept or not.
	Records int64
	// Bytes are those of the records as they are encoded, each with its key: what the
	// size of the directory is to be compared with.
	Bytes int64
}

// Contents reads all records, which takes seconds for millions of them. Other calls
// go on meanwhile.
func (s *Store) Contents(ctx context.Context) (Contents, error) {
	var c Contents
	s.scans.RLock()
	defer s.scans.RUnlock()
	view, _, err := s.view(ctx)
	if err != nil {
		return c, err
	}
	err = s.guarded(func() error { return errors.Join(c.read(ctx, view), view.Close()) })
	if err != nil {
		return c, s.scanError(ctx, err)
	}
	return c, nil
}

// contextEvery is after how many records it is looked whether who asked is still
// there.
const contextEvery = 1 << 14

func (c *Contents) read(ctx context.Context, view *pebble.Snapshot) error {
	iter, err := view.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{spaceRecord}, UpperBound: []byte{spaceRecord + 1}})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		if c.Records++; c.Records%contextEvery == 0 && ctx.Err() != nil {
			break
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return errors.Join(err, iter.Close())
		}
		c.Bytes += int64(len(iter.Key()) + len(value))
	}
	return errors.Join(iter.Error(), iter.Close(), context.Cause(ctx))
}
