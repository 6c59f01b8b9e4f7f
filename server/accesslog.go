package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/clock"
)

// DefaultAccessLines is how many lines an access log writes in a second at the most.
const DefaultAccessLines = 100

// AccessLog says which calls leave a line in the log. The zero value: none does.
type AccessLog struct {
	// Share of all calls, 0 to 1.
	Share float64
	// Refusals is the share of those that were refused, or that met a fault, 0 to 1,
	// where it is the greater: a call that is invalid, another request's, fenced, not
	// permitted, nobody's, or has no store. What is the normal life of callers, "in
	// progress" and "not found" too, is none.
	Refusals float64
	// PerSecond bounds the lines, whatever is sent. Default: DefaultAccessLines. How
	// many were left out is told in the next line.
	PerSecond int
	// Keys has lines tell a key's id, which may be personal, and not only its hash.
	Keys bool
}

func (c AccessLog) check() error {
	for _, share := range []float64{c.Share, c.Refusals} {
		if !(share >= 0 && share <= 1) {
			return errors.New("server.Config: AccessLog: a share is not between 0 and 1")
		}
	}
	if c.PerSecond < 0 {
		return errors.New("server.Config: AccessLog: PerSecond is below 0")
	}
	return nil
}

// accessLog writes one line for each call that is drawn; nil writes none.
type accessLog struct {
	AccessLog
	clock clock.Clock

	mu      sync.Mutex
	second  time.Duration // when the second began that lines are counted in
	lines   int
	leftOut int
}

// newAccessLog gives nil where no call leaves a line.
func newAccessLog(cfg AccessLog, c clock.Clock) *accessLog {
	if cfg.Share == 0 && cfg.Refusals == 0 {
		return nil
	}
	cfg.PerSecond = orDefault(cfg.PerSecond, DefaultAccessLines)
	return &accessLog{AccessLog: cfg, clock: c}
}

// drawn says whether a call leaves a line, by a draw from 0 to 1.
func (c AccessLog) drawn(matters bool, draw float64) bool {
	share := c.Share
	if matters {
		share = max(share, c.Refusals)
	}
	return draw < share
}

// room takes a line of this second's, and gives how many were left out before it.
func (l *accessLog) room() (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock.Monotonic(); now-l.second >= time.Second || l.lines == 0 {
		l.second, l.lines = now, 0
	}
	if l.lines >= l.PerSecond {
		l.leftOut++
		return 0, false
	}
	l.lines++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// tell writes the call's line, if it is drawn and there is room.
func (l *accessLog) tell(ctx context.Context, to *slog.Logger, seen *seenCall) {
	if l == nil || !l.drawn(seen.matters(), rand.Float64()) {
		return
	}
	leftOut, ok := l.room()
	if !ok {
		return
	}
	line := []slog.Attr{slog.String("method", seen.method), slog.String("result", seen.results()), slog.String("code", status.Code(seen.err).String())}
	text := func(name, value string) {
		if value != "" {
			line = append(line, slog.String(name, value))
		}
	}
	text("tenant", seen.key.Tenant)
	text("operation", seen.key.Operation)
	if seen.key.ID != "" {
		line = append(line, slog.String("key_hash", seen.key.Hash()))
	}
	if l.Keys {
		text("key_id", seen.key.ID)
	}
	if seen.items > 1 {
		line = append(line, slog.Int("items", seen.items))
	}
	text("principal", seen.principal)
	if p, is := peer.FromContext(ctx); is && p.Addr != nil {
		text("peer", p.Addr.String())
	}
	line = append(line, slog.Duration("took", seen.took))
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		text("trace_id", span.TraceID().String())
	}
	if leftOut > 0 {
		line = append(line, slog.Int("left_out", leftOut))
	}
	to.LogAttrs(ctx, slog.LevelInfo, "call", line...)
}
