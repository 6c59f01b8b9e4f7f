package client_test

import (
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// testClock is a Manual that tells what is being waited for, so that a test moves
// it when the code under test has come to wait, and never before.
type testClock struct {
	*clock.Manual

	mu      sync.Mutex
	pending map[*testTimer]struct{}
	changed chan struct{}
}

type testTimer struct {
	clock *testClock
	inner clock.Timer
	d, at time.Duration
}

func newTestClock() *testClock {
	return &testClock{
		Manual:  clock.NewManual(time.Unix(1_700_000_000, 0)),
		pending: map[*testTimer]struct{}{}, changed: make(chan struct{}),
	}
}

func (c *testClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &testTimer{clock: c, d: d, at: c.Monotonic() + d}
	if d > 0 {
		c.pending[t] = struct{}{}
		c.wake()
	}
	t.inner = c.Manual.AfterFunc(d, f)
	return t
}

func (t *testTimer) Stop() bool {
	t.clock.remove(t)
	return t.inner.Stop()
}

// Advance implements Manual's: what falls due is pending no more when it returns.
func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.pending {
		if t.at <= c.Monotonic()+d {
			delete(c.pending, t)
		}
	}
	c.Manual.Advance(d)
	c.wake()
}

func (c *testClock) remove(t *testTimer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, t)
	c.wake()
}

func (c *testClock) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until something waits for between least and most, and gives how
// long.
func (c *testClock) await(t *testing.T, least, most time.Duration) time.Duration {
	t.Helper()
	d, ok := c.awaitUnless(t, t.Context().Done(), least, most)
	if !ok {
		t.Fatalf("nothing came to wait for %v to %v", least, most)
	}
	return d
}

// awaitUnless is await that done may end.
func (c *testClock) awaitUnless(t *testing.T, done <-chan struct{}, least, most time.Duration) (time.Duration, bool) {
	t.Helper()
	for {
		d, changed, ok := c.find(least, most)
		if ok {
			return d, true
		}
		select {
		case <-changed:
		case <-done:
			return 0, false
		case <-time.After(hang):
			t.Fatalf("nothing came to wait for %v to %v", least, most)
		}
	}
}

// awaitNone waits until nothing waits for between least and most.
func (c *testClock) awaitNone(t *testing.T, least, most time.Duration) {
	t.Helper()
	for {
		d, changed, ok := c.find(least, most)
		if !ok {
			return
		}
		select {
		case <-changed:
		case <-time.After(hang):
			t.Fatalf("something still waits for %v", d)
		}
	}
}

func (c *testClock) find(least, most time.Duration) (time.Duration, <-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.pending {
		if t.d >= least && t.d <= most {
			return t.d, c.changed, true
		}
	}
	return 0, c.changed, false
}

// pass waits like await, and then lets that time pass.
func (c *testClock) pass(t *testing.T, least, most time.Duration) time.Duration {
	t.Helper()
	d := c.await(t, least, most)
	c.Advance(d)
	return d
}

// hang is how long a test waits for what must come before it says that it did
// not. No verdict rests on it.
const hang = 30 * time.Second

// recv gives what comes on ch.
func recv[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(hang):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}
