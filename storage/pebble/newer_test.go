package pebble

import (
	"bytes"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

// A directory that a newer version has written, in a format that this one knows,
// may hold states that this one does not.
func TestWhatANewerVersionWroteIsBusyAndLeftAsItIs(t *testing.T) {
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem(), Clock: clk})
	for name, change := range map[string]func(rec *oncekeeper.KeyRecord){
		"a state above those known":      func(rec *oncekeeper.KeyRecord) { rec.State = 5 },
		"a state far above":              func(rec *oncekeeper.KeyRecord) { rec.State = 255 },
		"no state":                       func(rec *oncekeeper.KeyRecord) { rec.State = 0 },
		"a settlement above those known": func(rec *oncekeeper.KeyRecord) { rec.Last = 5 },
		"a settled one of that kind":     func(rec *oncekeeper.KeyRecord) { rec.State, rec.Last = oncekeeper.StoredCompleted, 9 },
	} {
		t.Run(name, func(t *testing.T) {
			rec := s.Apply(t.Context(), testBegin(name, "this"))[0].Record
			newer := *rec
			newer.Expires = 1
			change(&newer)
			s.putNewer(t, rec, &newer)
			before, _, err := s.getRaw(recordKey(rec.Key))
			if err != nil {
				t.Fatal(err)
			}
			clk.Advance(1000 * time.Hour)
			for _, c := range []struct {
				cmd  lifecycle.Command
				want lifecycle.Verdict
			}{
				{testBegin(name, "another"), lifecycle.InProgress},
				{testBegin(name, "this"), lifecycle.InProgress},
				{testComplete(name, rec.Token, "x"), lifecycle.Unreadable},
				{lifecycle.Renew{Key: rec.Key, Token: rec.Token}, lifecycle.Unreadable},
				{lifecycle.Resolve{Key: rec.Key, Etag: newer.Etag(), Force: true}, lifecycle.Unreadable},
				{lifecycle.Delete{Key: rec.Key, Etag: newer.Etag(), Force: true}, lifecycle.Unreadable},
			} {
				if got := s.Apply(t.Context(), c.cmd)[0]; got.Err != nil || got.Verdict != c.want {
					t.Errorf("%T: got %v %v, want %v", c.cmd, got.Verdict, got.Err, c.want)
				}
			}
			if swept, err := s.Sweep(t.Context(), storage.SweepQuery{Limit: 100}); err != nil || swept.Records > 0 {
				t.Errorf("swept %+v, %v", swept, err)
			}
			after, _, err := s.getRaw(recordKey(rec.Key))
			if err != nil || !bytes.Equal(after, before) {
				t.Errorf("the record was %x\nand is now %x, %v", before, after, err)
			}
		})
	}
}

// putNewer writes a record as a newer version would, in before's place.
func (s *Store) putNewer(t *testing.T, before, after *oncekeeper.KeyRecord) {
	t.Helper()
	encoded, err := codec.Append(nil, after)
	if err != nil {
		t.Fatal(err)
	}
	b := s.db.NewBatch()
	r := round{writes: []*entry{{key: after.Key, recordKey: recordKey(after.Key), before: before, after: after, encoded: encoded}}}
	if err := r.writeTo(b); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.held = heldRecords{} // it was another process
}
