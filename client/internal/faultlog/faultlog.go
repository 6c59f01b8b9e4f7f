// Package faultlog logs what an operator must know and no caller can mend, seldom: a
// fault of the configuration is met by every call.
package faultlog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// every is between two lines of one Log.
const every = 10 * time.Second

// Log is a guard's.
type Log struct {
	// To is where lines go, and Guard whose they are.
	To    *slog.Logger
	Guard string

	next atomic.Int64 // on the monotonic clock; 0: now
}

// Report logs a fault of operation, unless one was logged a moment ago. err may be
// nil.
func (l *Log) Report(ctx context.Context, operation, what string, err error) {
	now := int64(clock.System.Monotonic())
	next := l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(every)) {
		return
	}
	attrs := []slog.Attr{slog.String("operation", operation)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	l.To.LogAttrs(ctx, slog.LevelError, l.Guard+": "+what, attrs...)
}
