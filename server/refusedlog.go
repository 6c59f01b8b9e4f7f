package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

const (
	// refusedInterval is between two log lines about one principal.
	refusedInterval = time.Minute
	// maxRefused is how many principals are told apart: their names may come from
	// tokens that somebody else makes.
	maxRefused = 1000
)

// refusedLog says whom the server refuses what they may not do, once in a while for
// each however often they ask: somebody's grants are missing, or somebody tries doors.
type refusedLog struct {
	clock clock.Clock
	mu    sync.Mutex
	seen  map[string]*faultCount
}

func newRefusedLog(c clock.Clock) *refusedLog {
	return &refusedLog{clock: c, seen: map[string]*faultCount{}}
}

func (l *refusedLog) log(ctx context.Context, to *slog.Logger, principal, method string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Monotonic()
	c := l.of(&principal, now)
	c.count++
	if c.count > 1 && now < c.next {
		return
	}
	c.next = now + refusedInterval
	to.WarnContext(ctx, "calls are refused: their principal may not make them", "principal", principal, "method", method, "calls", c.count)
}

// others are the principals that came when too many had been refused in a minute.
const others = "(others)"

// of gives the count of a principal, or that of the others.
func (l *refusedLog) of(principal *string, now time.Duration) *faultCount {
	if c := l.seen[*principal]; c != nil {
		return c
	}
	if len(l.seen) >= maxRefused {
		for name, c := range l.seen {
			if now >= c.next {
				delete(l.seen, name)
			}
		}
	}
	if len(l.seen) >= maxRefused {
		*principal = others
	}
	if l.seen[*principal] == nil {
		l.seen[*principal] = &faultCount{}
	}
	return l.seen[*principal]
}
