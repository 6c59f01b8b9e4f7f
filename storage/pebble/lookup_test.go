package pebble

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// TestABeginOfANewKeyReadsNoRecordOfALargeStore: where nearly all records are in the
// last level, as in a store of any size that was left alone for a while, filters keep
// the search for a key that is not there from reading blocks of it.
func TestABeginOfANewKeyReadsNoRecordOfALargeStore(t *testing.T) {
	s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem()})
	const keys = 1000
	begins := func(name string) []lifecycle.Command {
		cmds := make([]lifecycle.Command, keys)
		for i := range cmds {
			cmds[i] = testBegin(fmt.Sprintf("%04d-%s", i, name), "")
		}
		return cmds
	}
	s.Apply(t.Context(), begins("old")...)
	if err := s.db.Compact(t.Context(), []byte{spaceMeta}, []byte{spaceExpiry + 1}, false); err != nil {
		t.Fatal(err)
	}
	if last := s.db.Metrics().Levels[6]; last.TablesCount == 0 {
		t.Fatalf("the last level is empty: %v", s.db.Metrics())
	}
	before := s.db.Metrics().Filter.Hits
	for _, res := range s.Apply(t.Context(), begins("new")...) {
		if res.Verdict != lifecycle.Granted {
			t.Fatalf("a Begin of a new key got %+v", res)
		}
	}
	// One of a hundred keys passes the filter by chance.
	if spared := s.db.Metrics().Filter.Hits - before; spared < keys*9/10 {
		t.Errorf("filters spared %d of %d searches for a new key, want nearly all", spared, keys)
	}
}
