package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/tally"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// measured is a store, seen from outside: how long its calls take, how many are
// under way, and what faults it has.
type measured struct {
	storage.Store
	clock clock.Clock
	spans spans
	calls [len(storeCalls)]storeCall
}

// storeCall counts the calls of one method of a store.
type storeCall struct {
	took   *tally.Histogram
	flying atomic.Int64
	faults [len(storeFaults)]atomic.Int64
}

// The methods that are measured.
const (
	callApply = iota
	callRead
	callList
	callSweep
)

var storeCalls = [...]string{callApply: "apply", callRead: "read", callList: "list", callSweep: "sweep"}

// The faults that are told apart.
const (
	faultUnavailable = iota
	faultOverloaded
	faultInternal
)

var storeFaults = [...]string{faultUnavailable: "unavailable", faultOverloaded: "overloaded", faultInternal: "internal"}

func measure(s storage.Store, c clock.Clock) *measured {
	m := &measured{Store: s, clock: c}
	for i := range m.calls {
		m.calls[i].took = tally.NewTimes()
	}
	return m
}

// enter begins a call; leave ends it.
func (m *measured) enter(call int) (of *storeCall, since time.Duration) {
	of = &m.calls[call]
	of.flying.Add(1)
	return of, m.clock.Monotonic()
}

func (m *measured) leave(of *storeCall, since time.Duration) {
	of.flying.Add(-1)
	of.took.Add(int64(m.clock.Monotonic() - since))
}

// fault counts err where it is one.
func (c *storeCall) fault(err error) {
	if kind, is := faultOf(err); is {
		c.faults[kind].Add(1)
	}
}

// faultOf gives which fault err is. That a caller left is none, nor that it asks for
// what cannot be given.
func faultOf(err error) (kind int, is bool) {
	switch {
	case err == nil:
		return 0, false
	case errors.Is(err, oncekeeper.ErrStoreUnavailable):
		return faultUnavailable, true
	case errors.Is(err, oncekeeper.ErrOverloaded):
		return faultOverloaded, true
	case errors.Is(err, oncekeeper.ErrAskAlone), errors.Is(err, oncekeeper.ErrInvalidRequest),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errTimeIsUp):
		return 0, false
	default:
		return faultInternal, true
	}
}

// Apply implements storage.Store. Each command that met a fault is counted.
func (m *measured) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	call, since := m.enter(callApply)
	defer m.leave(call, since)
	ctx, span := m.spans.storeCall(ctx, callApply, len(cmds))
	results := m.Store.Apply(ctx, cmds...)
	for _, res := range results {
		call.fault(res.Err)
	}
	endCall(span, worst(results))
	return results
}

// Read implements storage.Store.
func (m *measured) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	call, since := m.enter(callRead)
	defer m.leave(call, since)
	ctx, span := m.spans.storeCall(ctx, callRead, len(keys))
	found, err := m.Store.Read(ctx, keys...)
	call.fault(err)
	endCall(span, err)
	return found, err
}

// List implements storage.Store.
func (m *measured) List(ctx context.Context, q storage.ListQuery) (storage.Page, error) {
	call, since := m.enter(callList)
	defer m.leave(call, since)
	ctx, span := m.spans.storeCall(ctx, callList, 1)
	page, err := m.Store.List(ctx, q)
	call.fault(err)
	endCall(span, err)
	return page, err
}

// Sweep implements storage.Store.
func (m *measured) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	call, since := m.enter(callSweep)
	defer m.leave(call, since)
	ctx, span := m.spans.storeCall(ctx, callSweep, 1)
	swept, err := m.Store.Sweep(ctx, q)
	call.fault(err)
	endCall(span, err)
	return swept, err
}
