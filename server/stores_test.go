package server_test

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// records are fresh, and lie where a kind of store keeps them.
type records struct {
	// open gives a server a store on them, which the end of the test closes.
	open func(t testing.TB) storage.Store
	// advance moves the clock of every store on them.
	advance func(time.Duration)
}

// kind is a kind of store that the service is tested on.
type kind struct {
	name string
	lay  func(t *testing.T) records
}

// onEveryStore runs a test of what a caller sees, which is the same on all.
func onEveryStore(t *testing.T, test func(t *testing.T, on records)) {
	onEach(t, test, kind{"pebble", func(t *testing.T) records { return onPebble(t) }}, kind{"postgres", onPostgres})
}

// onEverySharedStore runs a test of servers that share their records.
func onEverySharedStore(t *testing.T, test func(t *testing.T, on records)) {
	onEach(t, test, kind{"one store", onOneStore}, kind{"postgres", onPostgres})
}

func onEach(t *testing.T, test func(t *testing.T, on records), kinds ...kind) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, k.lay(t)) })
	}
}

func onPebble(testing.TB) records {
	clk := clock.NewManual(epoch)
	return records{
		advance: clk.Advance,
		open: func(t testing.TB) storage.Store {
			store, err := pebble.Open(pebble.Config{Clock: clk})
			return opened(t, store, err)
		},
	}
}

// onOneStore gives every server the same store, which is one that others change
// too.
func onOneStore(t *testing.T) records {
	on := onPebble(t)
	store := sharedStore{on.open(t)}
	on.open = func(testing.TB) storage.Store { return store }
	return on
}

type sharedStore struct{ storage.Store }

func (sharedStore) Shared() bool { return true }

func onPostgres(t *testing.T) records {
	address := pgtest.Database(t)
	return records{
		advance: pgtest.StopClock(t, address, epoch).Advance,
		open: func(t testing.TB) storage.Store {
			return openPostgres(t, postgres.Config{DSN: address})
		},
	}
}

func openPostgres(t testing.TB, cfg postgres.Config) storage.Store {
	t.Helper()
	store, err := postgres.Open(testContext(t), cfg)
	return opened(t, store, err)
}

func opened(t testing.TB, store storage.Store, err error) storage.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store
}
