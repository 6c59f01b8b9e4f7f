// Package storagetest proves a store: every line of storage.Store's contract,
// every rule of lifecycle through the store, and random histories against
// lifecycle alone. A store's own test is an Open and two calls.
//
// It also has Faulty, a store that goes wrong when told to, for whoever stands
// on one. It knows the contract and no store.
package storagetest

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/storage"
)

// Opened is a fresh, empty store and the hands that move its clock.
type Opened struct {
	Store storage.Store
	// Advance moves the store's clock on by d. It may be called from any goroutine.
	Advance func(d time.Duration)
	// Flows: the store's clock also moves on by itself, so that no two moments can
	// be told apart that are less than some seconds from each other.
	Flows bool
	// Reopen closes the store, which may be closed already, and opens it again on
	// the same data; the Store before it is not used again. Nil where that cannot
	// be.
	Reopen func() storage.Store
	// BeforeDelete has the next Sweep call hook once, when it has chosen what to
	// delete and not yet deleted it. Nil for a store that does both at once, or
	// cannot be stopped there.
	BeforeDelete func(hook func())
	// Sequences that RunModel plays; 0: 2,000. Fewer for a store that waits for
	// disks or networks.
	Sequences int
}

// Open makes a store; what it must clean up it registers with t. Closing the
// store twice does no harm.
type Open func(t testing.TB) Opened

// Run proves that the store keeps its contract and lifecycle's rules.
func Run(t *testing.T, open Open) {
	for _, p := range parts() {
		t.Run(p.name, func(t *testing.T) {
			var shared *Opened
			if p.oneStore {
				o := open(t)
				shared = &o
			}
			for _, c := range p.checks {
				t.Run(c.name, func(t *testing.T) { c.on(t, open, shared) })
			}
		})
	}
}

// part is a subject of the contract.
type part struct {
	name string
	// oneStore: the checks keep to keys of their own and share a store.
	oneStore bool
	checks   []check
}

// check is one line of it, as a sentence.
type check struct {
	name string
	run  func(h *hands)
}

func (c check) on(t testing.TB, open Open, shared *Opened) {
	if shared != nil {
		c.run(newHands(t, *shared))
		return
	}
	c.run(newHands(t, open(t)))
}

func parts() []part {
	return []part{
		{name: "rules", oneStore: true, checks: rules("rules", nil)},
		{name: "rules swept", oneStore: true, checks: rules("rules swept", sweepAll)},
		{name: "apply", checks: applying},
		{name: "ended contexts", checks: endedContexts},
		{name: "keys", checks: keeping},
		{name: "records", checks: wholeRecords},
		{name: "what a key went through", checks: wentThrough},
		{name: "read", checks: reading},
		{name: "list", checks: listing},
		{name: "sweep", checks: sweeping},
		{name: "concurrent", checks: concurrent},
		{name: "close", checks: closing},
	}
}
