// Package tally counts what happens on a hot path, by atomics alone, for whoever
// takes a snapshot now and then. It knows no way in which its counts are shown.
package tally

import (
	"sync/atomic"
	"time"
)

// Histogram counts whole numbers by size. Its zero value is not usable: see New.
type Histogram struct {
	bounds []int64
	counts []atomic.Int64 // one for each bound, and one for what is above
	sum    atomic.Int64
}

// New makes a histogram. Bounds ascend, and each counts what is no larger.
func New(bounds ...int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// NewTimes makes a histogram of durations, in nanoseconds, by TimeBounds.
func NewTimes() *Histogram {
	var bounds []int64
	for _, d := range TimeBounds() {
		bounds = append(bounds, int64(d))
	}
	return New(bounds...)
}

// TimeBounds are few, and reach from a write that is in memory to a caller whom
// patience has left.
func TimeBounds() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{ms / 4, ms, 4 * ms, 16 * ms, 64 * ms, 250 * ms, time.Second, 4 * time.Second, 15 * time.Second}
}

// Add counts n.
func (h *Histogram) Add(n int64) {
	at := 0
	for at < len(h.bounds) && n > h.bounds[at] {
		at++
	}
	h.counts[at].Add(1)
	h.sum.Add(n)
}

// Snapshot gives what was counted so far. What is counted meanwhile may be in its
// counts and not yet in its sum.
func (h *Histogram) Snapshot() Buckets {
	b := Buckets{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)), Sum: h.sum.Load()}
	for i := range h.counts {
		b.Counts[i] = uint64(h.counts[i].Load())
	}
	return b
}

// Buckets is what a histogram has counted.
type Buckets struct {
	// Bounds of the buckets, each the largest number of its own; not to be changed.
	Bounds []int64
	// Counts, one for each bound and one for what is above the last.
	Counts []uint64
	// Sum of all numbers.
	Sum int64
}

// Count is how many numbers there were.
func (b Buckets) Count() (n uint64) {
	for _, c := range b.Counts {
		n += c
	}
	return n
}
