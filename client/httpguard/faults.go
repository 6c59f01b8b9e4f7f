package httpguard

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// faultLog logs what an operator must know, at most every faultEvery: a fault of
// the configuration is met by every request.
type faultLog struct {
	log  *slog.Logger
	next atomic.Int64 // on the monotonic clock; 0: now
}

const faultEvery = 10 * time.Second

func (f *faultLog) report(ctx context.Context, operation, what string, err error) {
	now := int64(clock.System.Monotonic())
	next := f.next.Load()
	if now < next || !f.next.CompareAndSwap(next, now+int64(faultEvery)) {
		return
	}
	attrs := []slog.Attr{slog.String("operation", operation)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	f.log.LogAttrs(ctx, slog.LevelError, "httpguard: "+what, attrs...)
}
