package pebble

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestTheStoreTellsItsNumbers(t *testing.T) {
	s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem()})
	for i := range 3 {
		s.Apply(t.Context(), testBegin(fmt.Sprint(i), ""), testBegin(fmt.Sprint("more", i), ""))
	}
	st := s.Stats()
	if st.Commits.Count() != 3 || st.Commits.Sum != 6 || st.Syncs.Count() != 3 {
		t.Errorf("got commits %+v and syncs %+v, want three of two records each", st.Commits, st.Syncs)
	}
	if st.DiskBytes <= 0 || st.WALBytes <= 0 || st.WALBytes > st.DiskBytes || st.MemTableBytes <= 0 {
		t.Errorf("it takes %d bytes of disk, %d of them log, and %d of memory", st.DiskBytes, st.WALBytes, st.MemTableBytes)
	}
	if st.QueuedCalls != 0 || st.QueuedBytes != 0 || st.QueueFull != 0 || st.Failed {
		t.Errorf("a store with nothing to do tells %+v", st)
	}
	if st.FreeBytes != -1 {
		t.Errorf("of memory's free bytes it tells %d, want -1", st.FreeBytes)
	}
}

func TestAClosedStoreStillTellsItsNumbers(t *testing.T) {
	s := mustOpen(t, Config{})
	s.Apply(t.Context(), testBegin("1", ""))
	mustClose(t, s)
	if st := s.Stats(); st.Commits.Count() != 1 || st.DiskBytes != 0 {
		t.Errorf("after Close it tells %+v, want its one commit and nothing of the engine", st)
	}
}
