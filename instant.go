package oncekeeper

import (
	"math"
	"time"
)

// Instant is a moment of a store's clock: microseconds since the Unix epoch.
// The zero Instant means none. It has no location and no monotonic reading, so
// equal moments are equal values and every store keeps it whole.
type Instant int64

// InstantOf gives t rounded down to the microsecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time gives the moment in UTC, and the zero time for none.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(i)).UTC()
}

// Add gives the moment d later, d rounded up to the microsecond; it stops at
// the last moment there is rather than wrap.
func (i Instant) Add(d time.Duration) Instant {
	us := int64(CeilMicrosecond(d) / time.Microsecond)
	if us > 0 && int64(i) > math.MaxInt64-us {
		return math.MaxInt64
	}
	return i + Instant(us)
}

// Sub gives the time from j to i, and the longest Duration where it is more.
func (i Instant) Sub(j Instant) time.Duration {
	us := int64(i - j)
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// CeilMicrosecond rounds up to the microsecond, the grain of every store.
func CeilMicrosecond(d time.Duration) time.Duration {
	rest := d % time.Microsecond
	if rest <= 0 {
		return d - rest
	}
	if d > math.MaxInt64-(time.Microsecond-rest) {
		return math.MaxInt64 - math.MaxInt64%time.Microsecond
	}
	return d + (time.Microsecond - rest)
}
