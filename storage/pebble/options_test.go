package pebble

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
)

// TestTheCacheIsForBlocks: Pebble would have tables in memory take its room.
func TestTheCacheIsForBlocks(t *testing.T) {
	const size = 1 << 20
	s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem(), CacheBytes: size})
	var ids []oncekeeper.Key
	for i := range 2000 {
		id := fmt.Sprint(i)
		granted := s.Apply(t.Context(), testBegin(id, ""))[0]
		body := make([]byte, 1<<10)
		_, _ = rand.Read(body)
		if got := s.Apply(t.Context(), testComplete(id, granted.Record.Token, string(body)))[0]; got.Refusal() != nil {
			t.Fatal(got.Refusal())
		}
		ids = append(ids, testKey(id))
	}
	if err := s.db.Compact(t.Context(), []byte{spaceMeta}, []byte{spaceExpiry + 1}, false); err != nil {
		t.Fatal(err)
	}
	var cached int64
	// Pebble lets go of a table some time after it was written into a file.
	for range 100 {
		s.held = heldRecords{} // what is held is read from no file
		if _, err := s.Read(t.Context(), ids...); err != nil {
			t.Fatal(err)
		}
		if cached = s.db.Metrics().BlockCache.Size; cached >= size/2 {
			return
		}
	}
	t.Errorf("of two MiB that were read a hundred times %d bytes are in a cache of %d", cached, size)
}
