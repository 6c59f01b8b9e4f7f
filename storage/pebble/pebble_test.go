package pebble

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/storagetest"
)

func TestInMemory(t *testing.T) {
	storagetest.Run(t, opener(func(testing.TB) Config { return Config{Dir: "data", FS: vfs.NewMem()} }, 0))
	storagetest.RunModel(t, opener(func(testing.TB) Config { return Config{Dir: "data", FS: vfs.NewMem()} }, 0))
}

func TestOnDisk(t *testing.T) {
	storagetest.Run(t, opener(func(t testing.TB) Config { return Config{Dir: t.TempDir()} }, 100))
	storagetest.RunModel(t, opener(func(t testing.TB) Config { return Config{Dir: t.TempDir()} }, 100))
}

// opener gives the suite stores of the Config, on a clock that it moves.
func opener(config func(testing.TB) Config, sequences int) storagetest.Open {
	return func(t testing.TB) storagetest.Opened {
		clk := clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
		cfg := config(t)
		cfg.Clock = clk
		s := mustOpen(t, cfg)
		return storagetest.Opened{
			Store:   s,
			Advance: clk.Advance,
			Reopen: func() storage.Store {
				mustClose(t, s)
				s = mustOpen(t, cfg)
				return s
			},
			BeforeDelete: func(hook func()) {
				s.beforeDelete = func() {
					s.beforeDelete = nil
					hook()
				}
			},
			Sequences: sequences,
		}
	}
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
