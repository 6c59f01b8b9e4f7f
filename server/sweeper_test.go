package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// sweepable is a store that tells of each sweep, whose clock the test puts wrong.
type sweepable struct {
	storage.Store
	wrong atomic.Int64 // microseconds
	err   atomic.Pointer[error]
	swept chan storage.Swept
	// metrics of the server that sweeps it.
	metrics *prometheus.Registry
}

func (s *sweepable) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	found, err := s.Store.Read(ctx, keys...)
	found.Now += oncekeeper.Instant(s.wrong.Load())
	return found, err
}

func (s *sweepable) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	if err := s.err.Load(); err != nil {
		s.swept <- storage.Swept{}
		return storage.Swept{}, *err
	}
	swept, err := s.Store.Sweep(ctx, q)
	s.swept <- swept
	return swept, err
}

// swept starts a server that sweeps every minute, give or take a half.
func swept(t *testing.T, on records, with server.Sweeping) (*operated, *sweepable) {
	t.Helper()
	with.Interval = time.Minute
	var store *sweepable
	h := operate(t, on, func(cfg *server.Config) {
		store = &sweepable{Store: cfg.Store, swept: make(chan storage.Swept, 100), metrics: prometheus.NewPedanticRegistry()}
		cfg.Store, cfg.Sweep, cfg.Metrics = store, with, store.metrics
	})
	h.sleeps(t)
	return h, store
}

// sleeps waits until the sweeper does, which is all that waits here.
func (h *operated) sleeps(t *testing.T) {
	t.Helper()
	if err := h.clock.AwaitTimers(testContext(t), 1); err != nil {
		t.Fatalf("the sweeper does not sleep: %v\n%s", err, h.log)
	}
}

// next gives what the next batch deleted.
func (s *sweepable) next(t *testing.T) storage.Swept {
	t.Helper()
	select {
	case swept := <-s.swept:
		return swept
	case <-testContext(t).Done():
		t.Fatal("nothing was swept")
		return storage.Swept{}
	}
}

func (s *sweepable) none(t *testing.T) {
	t.Helper()
	select {
	case swept := <-s.swept:
		t.Errorf("it swept %v", swept)
	default:
	}
}

func TestTheSweeperDeletesInBatchesAndRestsBetweenThem(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, store := swept(t, on, server.Sweeping{Batch: 2, Rate: 1})
		for i := range 5 {
			h.complete(t, fmt.Sprint(i), h.grant(t, begin(fmt.Sprint(i), "")).GetFencingToken(), "")
		}
		begun[pb.KeyRecord_STATE_UNRESOLVED](t, h, "held")
		h.advance(retention + grace)
		for i, want := range []storage.Swept{{Records: 2, More: true}, {Records: 2, More: true}, {Records: 1}} {
			if i > 0 {
				h.sleeps(t)
				h.advance(2*time.Second - time.Microsecond)
				store.none(t)
				h.advance(time.Microsecond)
			}
			if got := store.next(t); got != want {
				t.Errorf("batch %d deleted %v, want %v", i+1, got, want)
			}
		}
		h.sleeps(t)
		h.advance(90 * time.Second)
		if got := store.next(t); got != (storage.Swept{}) {
			t.Errorf("the next run deleted %v", got)
		}
		h.look(t, "held")
		if text := h.log.String(); !strings.Contains(text, "records=5") {
			t.Errorf("the log does not say what was swept:\n%s", text)
		}
	})
}

func TestTwoSweepersDeleteEachRecordOnce(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		one, first := swept(t, on, server.Sweeping{})
		two, second := swept(t, on, server.Sweeping{})
		for i := range 20 {
			one.complete(t, fmt.Sprint(i), one.grant(t, begin(fmt.Sprint(i), "")).GetFencingToken(), "")
		}
		one.advance(retention + grace)
		two.clock.Advance(retention + grace)
		if a, b := first.next(t), second.next(t); a.Records+b.Records != 20 {
			t.Errorf("they deleted %d and %d records, want 20 together", a.Records, b.Records)
		}
	})
}

func TestTheSweeperStopsWhereTheStoresClockJumped(t *testing.T) {
	for name, c := range map[string]struct {
		jump  time.Duration
		stops bool
	}{
		"ahead": {10*time.Minute + time.Second, true}, "back": {-10*time.Minute - time.Second, true},
		"a little ahead": {10 * time.Minute, false}, "a little back": {-10 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, store := swept(t, onPebble(t), server.Sweeping{})
			h.complete(t, "1", h.grant(t, begin("1", "")).GetFencingToken(), "")
			store.wrong.Store(c.jump.Microseconds())
			h.advance(90 * time.Second)
			if !c.stops {
				store.next(t)
				h.sleeps(t)
				h.advance(90 * time.Second)
				store.next(t)
				return
			}
			h.log.await(t, "this server sweeps no more")
			h.advance(retention + grace)
			h.advance(90 * time.Second)
			store.none(t)
			// An operator who looked may.
			if res := h.sweep(t, &pb.SweepRequest{}); res.GetSwept() != 1 {
				t.Errorf("an operator's sweep gives %v", res)
			}
		})
	}
}

func TestAClockThatJumpsBetweenBatchesStopsTheSweeperToo(t *testing.T) {
	h, store := swept(t, onPebble(t), server.Sweeping{Batch: 1})
	for i := range 3 {
		h.complete(t, fmt.Sprint(i), h.grant(t, begin(fmt.Sprint(i), "")).GetFencingToken(), "")
	}
	h.advance(retention + grace)
	store.next(t)
	h.sleeps(t)
	store.wrong.Store(time.Hour.Microseconds())
	h.advance(time.Second)
	h.log.await(t, "this server sweeps no more")
	store.none(t)
}

func TestAStoreThatFailsIsSweptTheNextTime(t *testing.T) {
	for says, fault := range map[string]error{
		"calls are answered with a passing fault": oncekeeper.ErrStoreUnavailable,
		"the store was too slow for the sweeper":  fmt.Errorf("sweeping: %w", context.DeadlineExceeded),
	} {
		t.Run(says, func(t *testing.T) {
			h, store := swept(t, onPebble(t), server.Sweeping{})
			store.err.Store(&fault)
			h.complete(t, "1", h.grant(t, begin("1", "")).GetFencingToken(), "")
			h.advance(retention + grace)
			store.next(t)
			h.sleeps(t)
			h.log.await(t, says)
			store.err.Store(nil)
			h.advance(90 * time.Second)
			if got := store.next(t); got.Records != 1 {
				t.Errorf("when the store is back it deletes %v", got)
			}
		})
	}
}

func TestASweeperThatCouldHarmIsRefused(t *testing.T) {
	for want, c := range map[string]server.Sweeping{
		"smaller tokens": {Grace: server.MinGrace - 1}, "interval": {Interval: -1}, "batch": {Batch: -1}, "a second": {Rate: -1},
	} {
		if _, err := server.New(server.Config{Store: broken{}, Sweep: c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives %v, want it refused: %s", c, err, want)
		}
	}
}
