package opshttp

import (
	"context"
	"errors"
	"sync"
	"time"
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

	mu       sync.Mutex
	stopping bool
	latest   *asking
}

// asking is one check.
type asking struct {
	done chan struct{}
	err  error     // once done
	at   time.Time // once done
}

func newProbe(check func(context.Context) error) *probe { return &probe{check: check} }

func (p *probe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// ask gives why the service is not ready, or nil.
func (p *probe) ask(ctx context.Context) error {
	a := p.begin()
	if a == nil {
		return errStopping
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-a.done:
		return a.err
	case <-timer.C:
		return errHangs
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin gives the check under way, one that is fresh, or a new one; nil where the
// server stops.
func (p *probe) begin() *asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil
	}
	if a := p.latest; a != nil {
		select {
		case <-a.done:
			if time.Since(a.at) < freshness {
				return a
			}
		default:
			return a
		}
	}
	a := &asking{done: make(chan struct{})}
	p.latest = a
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a.err = p.check(ctx)
		a.at = time.Now()
		close(a.done)
	}()
	return a
}
