package opshttp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// How long an answer is good for, and how long one is waited for.
const (
	freshness = time.Second
	patience  = 2 * time.Second
)

var (
	errStopping = errors.New("the server stops")
	errHangs    = errors.New("the store gives no answer in time")
)

// probe asks whether the service is ready, once at a time however many want to know,
// and a second is as good as now. A check that hangs is the only one.
type probe struct {
	check func(context.Context) error
	clock clock.Clock

	mu       sync.Mutex
	stopping bool
	latest   *asking
}

// asking is one check. Its times are the clock's monotonic ones.
type asking struct {
	began time.Duration
	done  chan struct{}
	err   error         // once done
	ended time.Duration // once done
}

func newProbe(check func(context.Context) error, c clock.Clock) *probe {
	return &probe{check: check, clock: c}
}

func (p *probe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

func (p *probe) stops() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

// ask gives why the service is not ready, or nil. Who asks while a check hangs waits
// for what is left of its time, and once that is over for nothing.
func (p *probe) ask(ctx context.Context) error {
	a := p.begin()
	if a == nil {
		return errStopping
	}
	waiting, cancel := clock.WithTimeout(ctx, p.clock, a.began+patience-p.clock.Monotonic(), errHangs)
	defer cancel()
	select {
	case <-a.done:
		return p.answer(a)
	case <-waiting.Done():
	}
	select {
	case <-a.done: // at the last moment, or a moment ago
		return p.answer(a)
	default:
		return context.Cause(waiting)
	}
}

// answer is that of a check which is done, unless the server began to stop meanwhile.
func (p *probe) answer(a *asking) error {
	if p.stops() {
		return errStopping
	}
	return a.err
}

// begin gives the check under way, one that is fresh, or a new one; nil where the
// server stops.
func (p *probe) begin() *asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil
	}
	now := p.clock.Monotonic()
	if a := p.latest; a != nil {
		select {
		case <-a.done:
			if now-a.ended < freshness {
				return a
			}
		default:
			return a
		}
	}
	a := &asking{began: now, done: make(chan struct{})}
	p.latest = a
	go p.run(a)
	return a
}

func (p *probe) run(a *asking) {
	ctx, cancel := clock.WithTimeout(context.Background(), p.clock, patience, errHangs)
	defer cancel()
	a.err = p.check(ctx)
	a.ended = p.clock.Monotonic()
	close(a.done)
}
