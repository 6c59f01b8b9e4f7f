package pebble

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Read implements storage.Store.
func (s *Store) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	if ctx.Err() != nil {
		return storage.Snapshot{}, context.Cause(ctx)
	}
	t := &readTask{keys: keys}
	if err := s.do(t); err != nil {
		return storage.Snapshot{}, err
	}
	return t.snapshot, t.err
}

type readTask struct {
	keys     []oncekeeper.Key
	snapshot storage.Snapshot
	err      error
}

func (t *readTask) run(r *round) {
	t.snapshot = storage.Snapshot{Now: r.now, Records: make([]*oncekeeper.KeyRecord, len(t.keys))}
	for i, key := range t.keys {
		rec, err := r.get(key)
		if err != nil {
			t.err = err
			return
		}
		if rec != nil && !lifecycle.Gone(rec, r.now) {
			t.snapshot.Records[i] = rec
		}
	}
}

func (t *readTask) finish(err error) {
	if err != nil {
		t.snapshot, t.err = storage.Snapshot{}, err
	}
}

func (t *readTask) bytes() int { return 512 * len(t.keys) }

// viewTask takes a snapshot of the database between two batches: all that is in
// it is durable.
type viewTask struct {
	store *Store
	view  *pebble.Snapshot
	now   oncekeeper.Instant
	err   error
}

func (s *Store) view(ctx context.Context) (*pebble.Snapshot, oncekeeper.Instant, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	t := &viewTask{store: s}
	if err := s.do(t); err != nil {
		return nil, 0, err
	}
	return t.view, t.now, t.err
}

func (t *viewTask) run(r *round) { t.now = r.now }

func (t *viewTask) finish(err error) {
	if err != nil {
		t.err = err
		return
	}
	t.view = t.store.db.NewSnapshot()
}

func (t *viewTask) bytes() int { return 512 }

// pingTask passes through the committer, so that it answers only where a write
// would. Room to settle is enough: nobody must be kept from a server that can still
// take what holders have to say.
type pingTask struct {
	store *Store
	err   error
}

func (t *pingTask) run(r *round) {
	if err := r.hasRoom(t.store.roomToSettle()); err != nil {
		t.err = t.store.unavailable("writing a record", err)
	}
}

func (t *pingTask) finish(err error) {
	if err != nil {
		t.err = err
	}
}

func (t *pingTask) bytes() int { return 512 }
