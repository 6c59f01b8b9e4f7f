package clock

import (
	"context"
	"sync"
	"time"
)

// Manual is a Clock that stands still until it is moved. Its methods may be
// called from any goroutine.
type Manual struct {
	mu     sync.Mutex
	wall   time.Time
	mono   time.Duration
	timers map[*manualTimer]struct{}
	armed  chan struct{} // closed and replaced at every change of timers
}

// NewManual gives a clock that stands at wall.
func NewManual(wall time.Time) *Manual {
	return &Manual{wall: wall, timers: map[*manualTimer]struct{}{}, armed: make(chan struct{})}
}

type manualTimer struct {
	clock *Manual
	at    time.Duration
	f     func()
}

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall
}

// Monotonic implements Clock.
func (m *Manual) Monotonic() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mono
}

// AfterFunc implements Clock.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{clock: m, at: m.mono + d, f: f}
	if d <= 0 {
		go f()
		return t
	}
	m.timers[t] = struct{}{}
	m.changed()
	return t
}

// Stop implements Timer.
func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, pending := t.clock.timers[t]
	delete(t.clock.timers, t)
	t.clock.changed()
	return pending
}

// Advance moves both readings on by d and starts what has fallen due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall = m.wall.Add(d)
	m.mono += d
	for t := range m.timers {
		if t.at <= m.mono {
			delete(m.timers, t)
			go t.f()
		}
	}
	m.changed()
}

// Step moves the wall clock alone, either way, as an administrator does.
func (m *Manual) Step(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall = m.wall.Add(d)
}

// AwaitTimers waits until at least n timers are pending, so that a test moves
// the clock only when what it tests has begun to wait. It gives ctx's cause
// where that comes first.
func (m *Manual) AwaitTimers(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		enough, armed := len(m.timers) >= n, m.armed
		m.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-armed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changed wakes AwaitTimers; the caller holds mu.
func (m *Manual) changed() {
	close(m.armed)
	m.armed = make(chan struct{})
}
