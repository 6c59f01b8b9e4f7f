// Package clock is time that a test can move: the host's wall clock, a
// monotonic reading that never steps, and timers.
//
// It knows nothing of records. Which clock decides about a record is the
// store's affair; leases on the caller's side are counted on Monotonic.
package clock

import (
	"context"
	"time"
)

// Clock tells time and wakes.
type Clock interface {
	// Now is the wall clock. It may step either way.
	Now() time.Time
	// Monotonic is the time since some fixed origin. It never steps.
	Monotonic() time.Duration
	// AfterFunc calls f in a goroutine of its own once d has passed, unless the
	// Timer is stopped first.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending AfterFunc.
type Timer interface {
	// Stop gives whether it kept f from being called.
	Stop() bool
}

// System is the machine's clock.
var System Clock = system{origin: time.Now()}

type system struct{ origin time.Time }

func (system) Now() time.Time             { return time.Now() }
func (s system) Monotonic() time.Duration { return time.Since(s.origin) }
func (system) AfterFunc(d time.Duration, f func()) Timer {
	return time.AfterFunc(d, f)
}

// WithTimeout is context.WithTimeoutCause on c: once d has passed the context is
// cancelled with cause, which context.Cause gives. The context has no Deadline
// of its own, since deadlines are the system clock's.
func WithTimeout(ctx context.Context, c Clock, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// Sleep waits for d on c, or until ctx ends; it gives ctx's cause then.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
