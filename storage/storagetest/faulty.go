package storagetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Faulty is a Store that goes wrong when told to, and is its inner store
// otherwise: for tests of what stands on a store. Its methods may be called from
// any goroutine.
type Faulty struct {
	inner storage.Store

	mu     sync.Mutex
	down   bool
	faults []*fault
}

var _ storage.Store = (*Faulty)(nil)

// Match says which commands a fault is for.
type Match func(lifecycle.Command) bool

// Any is every command.
func Any(lifecycle.Command) bool { return true }

// Only is every command of one kind: Only[lifecycle.Begin].
func Only[C lifecycle.Command](cmd lifecycle.Command) bool {
	_, is := cmd.(C)
	return is
}

// NewFaulty gives inner, with no faults yet.
func NewFaulty(inner storage.Store) *Faulty { return &Faulty{inner: inner} }

// SetDown makes every call of every method but Shared and Close answer
// ErrStoreUnavailable, nothing being applied, until it is called with false.
func (f *Faulty) SetDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// Fail answers the next n commands that match with ErrStoreUnavailable, and does
// not apply them. Others of the same call are applied.
func (f *Faulty) Fail(n int, match Match) { f.add(&fault{kind: failing, left: n, match: match}) }

// Lose applies the next n commands that match, and answers ErrStoreUnavailable.
func (f *Faulty) Lose(n int, match Match) { f.add(&fault{kind: losing, left: n, match: match}) }

// HoldBefore stops the next Apply with a command that matches before anything of
// it is applied.
func (f *Faulty) HoldBefore(match Match) *Hold { return f.hold(holdingBefore, match) }

// HoldAfter stops the next Apply with a command that matches when all of it is
// applied, before it is answered.
func (f *Faulty) HoldAfter(match Match) *Hold { return f.hold(holdingAfter, match) }

// Hold is an Apply that is stopped, or will be.
type Hold struct {
	reached, released chan struct{}
	once              sync.Once
}

// Reached is closed when the Apply has come to the hold.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Release lets the Apply go on, also one that has not come yet. Releasing again
// does nothing.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

func (h *Hold) wait() {
	close(h.reached)
	<-h.released
}

type faultKind uint8

const (
	failing faultKind = iota
	losing
	holdingBefore
	holdingAfter
)

// fault strikes the next left commands that match; a hold strikes one call.
type fault struct {
	kind  faultKind
	left  int
	match Match
	hold  *Hold
}

func (f *Faulty) hold(kind faultKind, match Match) *Hold {
	h := &Hold{reached: make(chan struct{}), released: make(chan struct{})}
	f.add(&fault{kind: kind, left: 1, match: match, hold: h})
	return h
}

func (f *Faulty) add(fault *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fault)
}

// struck is what befalls one Apply.
type struck struct {
	failed, lost  []bool // by command
	before, after []*Hold
}

func (f *Faulty) strike(cmds []lifecycle.Command) struck {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := struck{failed: make([]bool, len(cmds)), lost: make([]bool, len(cmds))}
	for _, fault := range f.faults {
		for i, cmd := range cmds {
			if fault.left == 0 || !fault.match(cmd) {
				continue
			}
			fault.left--
			switch fault.kind {
			case failing:
				s.failed[i] = true
			case losing:
				s.lost[i] = true
			case holdingBefore:
				s.before = append(s.before, fault.hold)
			case holdingAfter:
				s.after = append(s.after, fault.hold)
			}
		}
	}
	return s
}

// Apply implements storage.Store.
func (f *Faulty) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	s := f.strike(cmds)
	for _, h := range s.before {
		h.wait()
	}
	results := make([]storage.Result, len(cmds))
	down := f.unavailable()
	var applied []lifecycle.Command
	for i, cmd := range cmds {
		if down == nil && !s.failed[i] {
			applied = append(applied, cmd)
		}
	}
	var answers []storage.Result
	if len(applied) > 0 {
		answers = f.inner.Apply(ctx, applied...)
	}
	for i := range cmds {
		switch {
		case down != nil:
			results[i].Err = down
		case s.failed[i]:
			results[i].Err = fmt.Errorf("%w: a planted fault, before it was applied", oncekeeper.ErrStoreUnavailable)
		default:
			if results[i], answers = answers[0], answers[1:]; s.lost[i] {
				results[i] = storage.Result{Err: fmt.Errorf("%w: a planted fault, the answer was lost", oncekeeper.ErrStoreUnavailable)}
			}
		}
	}
	for _, h := range s.after {
		h.wait()
	}
	return results
}

func (f *Faulty) unavailable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return fmt.Errorf("%w: a planted fault, the store is down", oncekeeper.ErrStoreUnavailable)
	}
	return nil
}

// Read implements storage.Store.
func (f *Faulty) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	if err := f.unavailable(); err != nil {
		return storage.Snapshot{}, err
	}
	return f.inner.Read(ctx, keys...)
}

// List implements storage.Store.
func (f *Faulty) List(ctx context.Context, q storage.ListQuery) (storage.Page, error) {
	if err := f.unavailable(); err != nil {
		return storage.Page{}, err
	}
	return f.inner.List(ctx, q)
}

// Sweep implements storage.Store.
func (f *Faulty) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	if err := f.unavailable(); err != nil {
		return storage.Swept{}, err
	}
	return f.inner.Sweep(ctx, q)
}

// Shared implements storage.Store.
func (f *Faulty) Shared() bool { return f.inner.Shared() }

// Ping implements storage.Store.
func (f *Faulty) Ping(ctx context.Context) error {
	if err := f.unavailable(); err != nil {
		return err
	}
	return f.inner.Ping(ctx)
}

// Close releases every hold and closes the inner store.
func (f *Faulty) Close() error {
	f.mu.Lock()
	for _, fault := range f.faults {
		if fault.hold != nil {
			fault.hold.Release()
		}
	}
	f.mu.Unlock()
	return f.inner.Close()
}
