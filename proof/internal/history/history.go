// Package history is what callers did and were answered: operations on keys, each
// with the times between which it took effect. It is recorded by a run, judged by a
// model and by named invariants, and kept as JSON. It knows neither wire nor store.
package history

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// Open is the Return of an operation that may take effect until the history ends.
const Open = math.MaxInt64

// History is what befell the keys of one run.
type History struct {
	// Seed and Store are what it is run again by.
	Seed  uint64
	Store string
	// Faults are what was done to the servers, in order: of which kind, and in words.
	Faults       [][2]string
	Operations   []*Operation
	Began, Ended time.Time
}

// Operation is one command on one key, and its answer.
type Operation struct {
	// ID of the operation in its history, from 0.
	ID     int
	Client int
	Server int
	Key    string

	// Exactly one of these is what was asked.
	Begin   *lifecycle.Begin   `json:",omitempty"`
	Renew   *lifecycle.Renew   `json:",omitempty"`
	Settle  *lifecycle.Settle  `json:",omitempty"`
	Resolve *lifecycle.Resolve `json:",omitempty"`
	Delete  *lifecycle.Delete  `json:",omitempty"`
	Get     bool               `json:",omitempty"`
	// Wait is how long a Begin was to be held.
	Wait time.Duration `json:",omitempty"`

	// Call and Return are on the monotonic clock of the clients, in nanoseconds.
	// Between them it took effect, if it did.
	Call, Return int64
	// Earliest and Latest bound what the store's clock can have been then.
	Earliest, Latest oncekeeper.Instant

	// Answer; nil where it is not known whether it took effect.
	Answer *Answer `json:",omitempty"`
	// Lost says why there is no answer.
	Lost string `json:",omitempty"`
}

// Answer is what a caller was told.
type Answer struct {
	Verdict lifecycle.Verdict

	// Of a grant: the token, the lease as told, when it ends, which attempt it is.
	Token      int64              `json:",omitempty"`
	Lease      time.Duration      `json:",omitempty"`
	LeaseEnd   oncekeeper.Instant `json:",omitempty"`
	Attempt    int32              `json:",omitempty"`
	Takeover   bool               `json:",omitempty"`
	Checkpoint []byte             `json:",omitempty"`
	// Since is of an unresolved key.
	Since oncekeeper.Instant `json:",omitempty"`
	// Expires is of a settlement.
	Expires oncekeeper.Instant `json:",omitempty"`
	// Outcome is of a replay.
	Outcome *oncekeeper.Outcome `json:",omitempty"`
	// Record is what Get and Resolve show.
	Record *View `json:",omitempty"`
}

// View is a record as a caller sees it.
type View struct {
	State             oncekeeper.State
	Etag              string
	Fingerprint       []byte
	FingerprintScheme string
	Token             int64
	Attempt           int32
	Holder            string
	Created           oncekeeper.Instant
	LeaseEnd          oncekeeper.Instant
	Settled           oncekeeper.Instant
	Expires           oncekeeper.Instant
	Outcome           *oncekeeper.Outcome
	Checkpoint        []byte
	Hold              bool
}

// Command gives what was asked, as the rules take it; nil for Get.
func (o *Operation) Command() lifecycle.Command {
	switch {
	case o.Begin != nil:
		return *o.Begin
	case o.Renew != nil:
		return *o.Renew
	case o.Settle != nil:
		return *o.Settle
	case o.Resolve != nil:
		return *o.Resolve
	case o.Delete != nil:
		return *o.Delete
	default:
		return nil
	}
}

// Granted says whether it was answered with a grant.
func (o *Operation) Granted() bool {
	return o.Answer != nil && o.Answer.Verdict == lifecycle.Granted
}

// ByKey gives the operations of each key, in the order of their calls, and the keys
// in the order of their first.
func (h *History) ByKey() [][]*Operation {
	index := map[string]int{}
	var keys [][]*Operation
	for _, o := range h.Operations {
		i, known := index[o.Key]
		if !known {
			i = len(keys)
			index[o.Key] = i
			keys = append(keys, nil)
		}
		keys[i] = append(keys[i], o)
	}
	for _, ops := range keys {
		slices.SortStableFunc(ops, func(a, b *Operation) int {
			switch {
			case a.Call < b.Call:
				return -1
			case a.Call > b.Call:
				return 1
			default:
				return 0
			}
		})
	}
	return keys
}

// Lost gives how many operations have no answer.
func (h *History) Lost() int {
	n := 0
	for _, o := range h.Operations {
		if o.Answer == nil {
			n++
		}
	}
	return n
}

// Save writes h to a file.
func (h *History) Save(path string) error {
	text, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return fmt.Errorf("saving a history: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}

// Load reads what Save wrote.
func Load(path string) (*History, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := &History{}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("%s is no history: %w", path, err)
	}
	return h, nil
}

// Hidden says whether o may have changed the record at a moment that its answer does
// not tell.
func (o *Operation) Hidden() bool {
	switch {
	case o.Get:
		return false
	case o.Answer == nil || o.Answer.Verdict == lifecycle.Deleted || o.Answer.Verdict == lifecycle.Unresolved:
		return true
	default:
		return o.Settle != nil && o.Answer.Verdict == lifecycle.Settled && o.Settle.As != oncekeeper.SettledComplete && o.Settle.As != oncekeeper.SettledFinal
	}
}
