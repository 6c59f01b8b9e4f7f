// Package plant leaves rules out of a store, one at a time, to see that a proof finds
// each: a check that finds nothing there proves nothing. What it wraps is the real
// store, and it is linked by no program but the proof's own.
package plant

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Rules are what can be left out, by name.
const (
	// Fencing: the settlement of an old token is taken for the latest attempt's.
	Fencing = "fencing"
	// LiveLease: a key is granted although another attempt's lease is live.
	LiveLease = "live-lease"
	// AckSynced: a change is answered before it is on disk.
	AckSynced = "ack-synced"
	// ReadSynced: what is not on disk yet is shown to those who read.
	ReadSynced = "read-synced"
	// SweepRecheck: a sweep deletes what it found, whatever became of it since.
	SweepRecheck = "sweep-recheck"
	// Fingerprint: another request under the key passes for the first.
	Fingerprint = "fingerprint"
	// OneStatement: two Begins of one key that come together are one.
	OneStatement = "one-statement"
	// OwnEcho: where a commit's answer was lost, the command is judged again by what
	// it left itself.
	OwnEcho = "own-echo"
	// TokenGrows: tokens start again at 1 once the record was swept.
	TokenGrows = "token-grows"
)

// wrappers leave a rule out of a store.
var wrappers = map[string]func(storage.Store) storage.Store{
	Fencing:      func(s storage.Store) storage.Store { return each{s, unfenced} },
	LiveLease:    func(s storage.Store) storage.Store { return each{s, seizing} },
	Fingerprint:  func(s storage.Store) storage.Store { return each{s, anyRequest} },
	OwnEcho:      func(s storage.Store) storage.Store { return each{s, echoed} },
	OneStatement: func(s storage.Store) storage.Store { return newShared(s) },
	SweepRecheck: func(s storage.Store) storage.Store { return newBlind(s) },
	TokenGrows:   func(s storage.Store) storage.Store { return newForgetful(s) },
	AckSynced:    func(s storage.Store) storage.Store { return s }, // see Files
	ReadSynced:   func(s storage.Store) storage.Store { return each{s, slowly} },
}

// Rules gives every name.
func Rules() []string { return slices.Sorted(maps.Keys(wrappers)) }

// Store leaves rule out of inner; none where it is empty.
func Store(rule string, inner storage.Store) (storage.Store, error) {
	if rule == "" {
		return inner, nil
	}
	wrap, known := wrappers[rule]
	if !known {
		return nil, fmt.Errorf("no rule is called %q: there are %v", rule, Rules())
	}
	return wrap(inner), nil
}

// Hasty gives a store whose sweeps leave nothing alone that is gone: the grace of a
// server is for hosts whose clocks differ.
func Hasty(inner storage.Store) storage.Store { return hasty{inner} }

type hasty struct{ storage.Store }

func (s hasty) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	q.Grace = 0
	return s.Store.Sweep(ctx, q)
}

// each has apply do one command after the other.
type each struct {
	storage.Store
	apply func(ctx context.Context, inner storage.Store, cmd lifecycle.Command) storage.Result
}

func (s each) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	results := make([]storage.Result, len(cmds))
	for i, cmd := range cmds {
		results[i] = s.apply(ctx, s.Store, cmd)
	}
	return results
}

// seldom is true once in twenty times: a rule that is broken now and then is harder to
// find.
func seldom() bool { return rand.IntN(20) == 0 }
