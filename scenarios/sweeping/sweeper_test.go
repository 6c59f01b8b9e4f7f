package sweeping

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// counted is a store that counts what sweeps say they deleted, and stays open.
type counted struct {
	storage.Store
	swept *atomic.Int64
	// each is told of every sweep.
	each func(storage.Swept)
}

func (c counted) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	swept, err := c.Store.Sweep(ctx, q)
	c.swept.Add(swept.Records)
	if c.each != nil {
		c.each(swept)
	}
	return swept, err
}

func (counted) Close() error { return nil }

// sweeping runs a server whose sweeper never rests for long, and gives what stops it.
func sweeping(t testing.TB, store counted, with server.Sweeping) (stop func()) {
	t.Helper()
	with.Interval = time.Millisecond
	keeper, err := inprocess.Open(inprocess.Config{Store: store, Sweep: with})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := keeper.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

const unhindered = 1 << 30

func TestThreeSweepersAtOnceDeleteEachRecordOnceAndNoCallerMeetsThem(t *testing.T) {
	onEachStore(t, func(t *testing.T, lay func(testing.TB, int) records) {
		const n = 20_000
		on := lay(t, n)
		var swept atomic.Int64
		ended := make(chan struct{}, 3)
		var stores []storage.Store
		var stops []func()
		var calls *load
		for i := range 3 {
			if i == 0 || on.many {
				stores = append(stores, on.open())
			}
			quiet := false // of one sweeper's goroutine
			if i == 0 {
				calls = begun(t, counted{Store: stores[0], swept: &swept}, 8)
			}
			stops = append(stops, sweeping(t, counted{stores[len(stores)-1], &swept, func(s storage.Swept) {
				if s == (storage.Swept{}) && !quiet {
					quiet = true
					ended <- struct{}{}
				}
			}}, server.Sweeping{Batch: 100, Rate: unhindered}))
		}
		for range 3 {
			await(t, ended)
		}
		for _, stop := range stops {
			stop()
		}
		calls.end(t)
		wantLeft(t, stores[0], 0)
		if got := swept.Load(); got != n {
			t.Errorf("three sweepers counted %d deletions of %d records", got, n)
		}
		for _, store := range stores {
			mustClose(t, store)
		}
	})
}

func TestASweepThatIsStoppedHalfWayGoesOnBehindARestart(t *testing.T) {
	onEachStore(t, func(t *testing.T, lay func(testing.TB, int) records) {
		const n = 10_000
		on := lay(t, n)
		var swept atomic.Int64
		store, half := on.open(), make(chan struct{}, n)
		stop := sweeping(t, counted{store, &swept, func(storage.Swept) {
			if swept.Load() >= n/2 {
				half <- struct{}{}
			}
		}}, server.Sweeping{Batch: 50, Rate: 100_000})
		await(t, half)
		stop()
		mustClose(t, store)
		first := swept.Load()
		if first == n {
			t.Fatal("nothing was left to the second sweeper: this shows nothing")
		}

		store = on.open()
		wantLeft(t, store, n-first)
		all := make(chan struct{}, n)
		stop = sweeping(t, counted{store, &swept, func(s storage.Swept) {
			if !s.More {
				all <- struct{}{}
			}
		}}, server.Sweeping{Rate: unhindered})
		await(t, all)
		stop()
		wantLeft(t, store, 0)
		mustClose(t, store)
		if got := swept.Load(); got != n {
			t.Errorf("before and behind the restart %d were counted, of %d", got, n)
		}
	})
}

func await(t *testing.T, told <-chan struct{}) {
	t.Helper()
	select {
	case <-told:
	case <-time.After(2 * time.Minute):
		t.Fatal("the sweepers do not come there within two minutes")
	}
}

func wantLeft(t *testing.T, store storage.Store, want int64) {
	t.Helper()
	left, err := store.Sweep(t.Context(), storage.SweepQuery{Limit: 1 << 30, DryRun: true})
	if err != nil || left.Records != want {
		t.Errorf("%d records are left (%v), want %d", left.Records, err, want)
	}
}
