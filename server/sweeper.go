package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Sweeping is how records whose retention has passed are deleted. The zero value
// of a field is its default.
type Sweeping struct {
	// Interval between the runs of the background sweeper, give or take a half.
	// Default: there is no background sweeper.
	Interval time.Duration
	// Grace is how long after its expiry a record is left alone, by an operator's
	// Sweep too. Default: 20 minutes; at least MinGrace.
	Grace time.Duration
	// Batch is how many records the background sweeper has the store delete at once.
	// Default: 1,000.
	Batch int
	// Rate is how many records a second the background sweeper deletes at the most.
	// Default: 10,000.
	Rate int
}

// MinGrace is how far apart the clocks may be that decide one after the other,
// over a failover or a restart elsewhere: a token is a moment, and what is left of
// a swept record's is the clock alone.
const MinGrace = 10 * time.Minute

// maxJump between two looks at the store's clock: past that, nobody knows what has
// expired.
const maxJump = MinGrace

// sweepTimeout bounds one call of the store: what hangs is let go.
const sweepTimeout = time.Minute

func (c Sweeping) withDefaults() (Sweeping, error) {
	if c.Grace == 0 {
		c.Grace = 2 * MinGrace
	}
	c.Batch, c.Rate = orDefault(c.Batch, 1_000), orDefault(c.Rate, 10_000)
	switch {
	case c.Interval < 0:
		return c, fmt.Errorf("an interval of %v is below 0", c.Interval)
	case c.Grace < MinGrace:
		return c, fmt.Errorf("a grace of %v is below %v: a host whose clock is behind would give smaller tokens", c.Grace, MinGrace)
	case c.Batch < 0 || c.Rate < 0:
		return c, fmt.Errorf("a batch of %d at %d a second: neither may be below 0", c.Batch, c.Rate)
	}
	return c, nil
}

// sweeper deletes, now and then, the records that are gone. It changes disk use and
// nothing else, and any number of servers may run one each: whoever comes second
// finds less to do.
//
// It is the one thing here that destroys what a clock alone calls over, so it looks
// at the store's clock first: where that went another way than time did, it stops
// for good and says so.
type sweeper struct {
	store  storage.Store
	clock  clock.Clock
	log    *slog.Logger
	cfg    Sweeping
	failed func(context.Context, error)
	last   *reading
	counts sweepCounts
}

// reading is the store's clock as it was seen between two moments of this host's
// monotonic one.
type reading struct {
	store       oncekeeper.Instant
	asked, told time.Duration
}

// jump gives how far the store's clock went from r to next beyond what time did, or
// short of it where negative.
func (r reading) jump(next reading) time.Duration {
	moved := next.store.Sub(r.store)
	if most := next.told - r.asked; moved > most {
		return moved - most
	}
	return min(0, moved-(next.asked-r.told))
}

// start begins to sweep, and gives what ends it and waits until it has ended.
func (w *sweeper) start() (end func()) {
	if w.cfg.Interval == 0 {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

func (w *sweeper) run(ctx context.Context) {
	for w.turn(ctx) {
		// Servers that were started together do not sweep together.
		half := w.cfg.Interval / 2
		if clock.Sleep(ctx, w.clock, half+rand.N(w.cfg.Interval)) != nil {
			return
		}
	}
}

// turn sweeps all that is there to sweep, batch by batch, and says whether there
// may be another turn. The first one only looks at the clock.
func (w *sweeper) turn(ctx context.Context) bool {
	if w.last == nil {
		w.steady(ctx)
		return true
	}
	var total int64
	defer func() {
		if total > 0 {
			w.log.InfoContext(ctx, "swept what had expired", "records", total)
		}
	}()
	for {
		steady, jumped := w.steady(ctx)
		if jumped {
			return false
		}
		if !steady {
			return true
		}
		swept, err := w.batch(ctx)
		total += swept.Records
		w.counts.swept.Add(swept.Records)
		if err != nil {
			w.tell(ctx, err)
			return true
		}
		if !swept.More || swept.Records == 0 {
			w.counts.ran(w.clock.Now())
			return true
		}
		if clock.Sleep(ctx, w.clock, time.Duration(swept.Records)*time.Second/time.Duration(w.cfg.Rate)) != nil {
			return true
		}
	}
}

func (w *sweeper) batch(ctx context.Context) (storage.Swept, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return w.store.Sweep(ctx, storage.SweepQuery{Grace: w.cfg.Grace, Limit: w.cfg.Batch})
}

// steady looks at the store's clock: whether it could be seen and went as time did,
// or jumped.
func (w *sweeper) steady(ctx context.Context) (steady, jumped bool) {
	now, err := w.look(ctx)
	if err != nil {
		w.tell(ctx, err)
		return false, false
	}
	last := w.last
	w.last = &now
	if last == nil {
		return true, false
	}
	jump := last.jump(now)
	if jump.Abs() <= maxJump {
		return true, false
	}
	w.counts.stopped.Store(true)
	w.log.ErrorContext(ctx, "the store's clock jumped, and records may seem to have expired that have not: this server sweeps no more. "+
		"Set the clock right, then restart the server", "jump", jump.String())
	return false, true
}

func (w *sweeper) look(ctx context.Context) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	r := reading{asked: w.clock.Monotonic()}
	found, err := w.store.Read(ctx)
	r.store, r.told = found.Now, w.clock.Monotonic()
	return r, err
}

// tell passes over the server's own end.
func (w *sweeper) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.counts.failed.Add(1)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		w.log.WarnContext(ctx, "the store was too slow for the sweeper, which goes on with its next run. "+
			"Where this comes again, sweep in smaller batches, and look at what keeps the store busy", "within", sweepTimeout.String(), "batch", w.cfg.Batch)
	default:
		w.failed(ctx, err)
	}
}
