package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// faultInterval is between two log lines of one reason.
const faultInterval = 10 * time.Second

// faultLog logs a fault when it begins and then now and then, with how often it
// came: a store that is down for an hour is some hundreds of lines, not a full
// disk.
type faultLog struct {
	clock clock.Clock
	what  string
	mu    sync.Mutex
	seen  map[string]*faultCount
}

type faultCount struct {
	next  time.Duration
	count int
}

func newFaultLog(c clock.Clock, what string) *faultLog {
	return &faultLog{clock: c, what: what, seen: map[string]*faultCount{}}
}

func (l *faultLog) log(ctx context.Context, to *slog.Logger, reason string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.seen[reason]
	if c == nil {
		c = &faultCount{}
		l.seen[reason] = c
	}
	c.count++
	if now := l.clock.Monotonic(); c.count == 1 || now >= c.next {
		to.WarnContext(ctx, l.what, "reason", reason, "calls", c.count, "error", err)
		c.next = now + faultInterval
	}
}
