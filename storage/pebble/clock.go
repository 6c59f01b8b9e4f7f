package pebble

import (
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
)

// storeClock is the one clock that decides: the last moment given plus the
// monotonic time since, or the host's clock where that is later. So a step back
// changes nothing, a restart on a host whose clock is behind goes on from the
// last moment written, and one moment written far ahead does not stop time. It
// is the committer's alone.
type storeClock struct {
	host clock.Clock
	last oncekeeper.Instant
	mono time.Duration
}

func newStoreClock(host clock.Clock, lastWritten oncekeeper.Instant) storeClock {
	return storeClock{host: host, last: lastWritten, mono: host.Monotonic()}
}

func (c *storeClock) now() oncekeeper.Instant {
	// The host's clock is read first: were this process stopped between the two
	// readings, the one behind the stop would put this clock ahead for good, and end
	// every live lease early.
	host := oncekeeper.InstantOf(c.host.Now())
	// Whole microseconds alone are taken from the monotonic reading, so that
	// rounding never makes this clock run fast.
	elapsed := (c.host.Monotonic() - c.mono).Truncate(time.Microsecond)
	c.mono += elapsed
	c.last = max(c.last.Add(elapsed), host)
	return c.last
}
