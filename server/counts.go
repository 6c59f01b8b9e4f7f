package server

import (
	"sync/atomic"
	"time"
)

// What the server's parts count of themselves, for metrics.go to read.

// waitCounts are of waiting.
type waitCounts struct {
	full, keyFull          atomic.Int64 // calls that did not wait for want of room
	answer, turn, closings atomic.Int64 // wake-ups
}

func (c *waitCounts) woke(by wakeup) {
	switch {
	case by.closing:
		c.closings.Add(1)
	case by.answer != nil:
		c.answer.Add(1)
	default:
		c.turn.Add(1)
	}
}

// lookCounts are of watcher.
type lookCounts struct{ changed, same, failed atomic.Int64 }

// sweepCounts are of sweeper, and of operators' sweeps by hand.
type sweepCounts struct {
	swept, byHand, runs, failed atomic.Int64
	last                        atomic.Int64 // Unix nanoseconds of the last whole run; 0: none yet
	stopped                     atomic.Bool
}

func (c *sweepCounts) ran(at time.Time) {
	c.runs.Add(1)
	c.last.Store(at.UnixNano())
}
