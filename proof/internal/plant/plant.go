// Package plant leaves rules out of a store, one at a time, to see that a proof finds
// each: a check that finds nothing there proves nothing. What it wraps is the real
// store, and it is linked by no program but the proof's own.
package plant

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper/storage"
)

// Hasty gives a store whose sweeps leave nothing alone that is gone: the grace of a
// server is for hosts whose clocks differ.
func Hasty(inner storage.Store) storage.Store { return hasty{inner} }

type hasty struct{ storage.Store }

func (s hasty) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	q.Grace = 0
	return s.Store.Sweep(ctx, q)
}

// Store leaves rule out of inner; none where it is empty.
func Store(rule string, inner storage.Store) (storage.Store, error) {
	if rule == "" {
		return inner, nil
	}
	return nil, fmt.Errorf("no rule is called %q", rule)
}

// Files gives the file system of an embedded store that leaves rule out; nil for the
// machine's own.
func Files(rule string) vfs.FS { return nil }
