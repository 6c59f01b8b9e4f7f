// Package model says whether a history of one key could have come from the rules of
// lifecycle, applied to one command after the other: whether it is linearizable. The
// search is porcupine's; the sequential model is lifecycle.Apply itself.
//
// The rules ask what time it is, and a caller does not see that. So the model is
// nondeterministic: a state is a set of records, any of which the key may have. An
// answer that tells the moment of its command (a grant's, a renewal's, a resolution's)
// pins it; for the others the moments are tried that could make a difference, within
// what the store's clock can have been between the call and its answer. See moments.
package model

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
)

// Result is what became of a check.
type Result string

const (
	// Linearizable: the rules could have answered so.
	Linearizable Result = "linearizable"
	// Illegal: they could not.
	Illegal Result = "not linearizable"
	// Undecided: the time for looking was over.
	Undecided Result = "undecided"
)

// Checked is a check of one key.
type Checked struct {
	Result Result
	Key    string

	ops []*history.Operation

	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// Check judges the operations of one key, and gives up after patience.
func Check(ops []*history.Operation, patience time.Duration) Checked {
	m := newModel(ops)
	var steps []porcupine.Operation
	for _, o := range ops {
		if o.Answer == nil && o.Command() == nil {
			continue // a look that was not answered did nothing
		}
		steps = append(steps, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: o.Answer, Return: o.Return})
	}
	result, info := porcupine.CheckOperationsVerbose(m, steps, patience)
	c := Checked{Key: ops[0].Key, ops: ops, model: m, info: info}
	switch result {
	case porcupine.Ok:
		c.Result = Linearizable
	case porcupine.Illegal:
		c.Result = Illegal
	default:
		c.Result = Undecided
	}
	return c
}

// Draw writes the longest orders that the search found to an HTML file.
func (c Checked) Draw(path string) error {
	if err := porcupine.VisualizePath(c.model, c.info, path); err != nil {
		return fmt.Errorf("drawing a history: %w", err)
	}
	return nil
}

func newModel(ops []*history.Operation) porcupine.Model {
	seen := observe(ops)
	return porcupine.Model{
		Init: func() any { return newBelief([]possible{{}}) },
		Step: func(state, input, _ any) (bool, any) {
			next := step(seen, state.(*belief), input.(*history.Operation))
			return len(next.all) > 0, next
		},
		Equal:             func(a, b any) bool { return a.(*belief).equal(b.(*belief)) },
		Hash:              func(state any) uint64 { return state.(*belief).hash },
		DescribeOperation: func(input, _ any) string { return input.(*history.Operation).String() },
		DescribeState:     func(state any) string { return state.(*belief).String() },
	}
}

// step gives every record that the key may have after o, from those that it may have
// had before.
func step(seen observed, before *belief, o *history.Operation) *belief {
	var after []possible
	for _, was := range before.all {
		if o.Answer == nil {
			after = append(after, was) // it never happened
		}
		for _, now := range seen.moments(o, was.rec) {
			rec, fits := apply(was.rec, o, now)
			switch {
			case !fits:
			case rec == was.rec:
				after = append(after, was)
			default:
				after = append(after, possible{rec: rec, code: encode(rec)})
			}
		}
	}
	return newBelief(after)
}

// apply gives the record after o at now, and whether what the rules say of it is what
// its caller was told.
func apply(rec *oncekeeper.KeyRecord, o *history.Operation, now oncekeeper.Instant) (*oncekeeper.KeyRecord, bool) {
	cmd := o.Command()
	if cmd == nil {
		return rec, showed(rec, o.Answer, now)
	}
	next, verdict := lifecycle.Apply(rec, cmd, now)
	if next != rec && len(next.History) > 0 {
		// What a key went through is told to people, and decides nothing.
		plain := *next
		plain.History = nil
		next = &plain
	}
	return next, o.Answer == nil || told(o, next, verdict, now)
}

// belief is the set of records that a key may have, each once, in order.
type belief struct {
	all  []possible
	hash uint64
}

// possible is a record, nil for none, and all that is in it as text.
type possible struct {
	rec  *oncekeeper.KeyRecord
	code string
}

var hashSeed = maphash.MakeSeed()

func newBelief(all []possible) *belief {
	slices.SortFunc(all, func(a, b possible) int { return strings.Compare(a.code, b.code) })
	all = slices.CompactFunc(all, func(a, b possible) bool { return a.code == b.code })
	b := &belief{all: all}
	for _, p := range all {
		b.hash = b.hash*31 + maphash.String(hashSeed, p.code)
	}
	return b
}

func (b *belief) equal(c *belief) bool {
	return b.hash == c.hash && slices.EqualFunc(b.all, c.all, func(x, y possible) bool { return x.code == y.code })
}

func (b *belief) String() string {
	var lines []string
	for i, p := range b.all {
		if i == 8 {
			lines = append(lines, fmt.Sprintf("… %d more", len(b.all)-i))
			break
		}
		if p.rec == nil {
			lines = append(lines, "no record")
			continue
		}
		r := p.rec
		lines = append(lines, fmt.Sprintf("stored %d %s by %q, attempt %d, lease until %d, expires %d, last %d", r.State, r.Etag(), r.Fingerprint, r.Attempt, r.LeaseEnd, r.Expires, r.Last))
	}
	return strings.Join(lines, "\n")
}

// encode gives all that is in rec but the key, which is the same in all.
func encode(rec *oncekeeper.KeyRecord) string {
	b := make([]byte, 0, 256)
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	flag := func(is bool) {
		if is {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	g := rec.Granted
	for _, n := range []int64{
		int64(rec.State), rec.Token, rec.Revision, int64(rec.Attempt), int64(rec.Created), int64(rec.LeaseEnd), int64(rec.UnsettledUntil),
		int64(rec.Expires), int64(rec.Last), int64(rec.Origin), int64(rec.Settled),
		int64(g.Lease), int64(g.Retention), int64(g.UnsettledRetention), int64(g.MaxAttempts),
	} {
		number(n)
	}
	for _, is := range []bool{rec.AnyFingerprint, rec.Takeover, g.Hold, rec.Response != nil, rec.Status != nil} {
		flag(is)
	}
	for _, s := range []string{string(rec.Fingerprint), rec.FingerprintScheme, rec.CallID, rec.Holder, string(rec.Checkpoint)} {
		text(s)
	}
	if rec.Response != nil {
		text(string(rec.Response.Body))
	}
	if rec.Status != nil {
		number(int64(rec.Status.Code))
		text(rec.Status.Message)
	}
	return string(b)
}

// Why says where the search got stuck: the end of the longest order that it found,
// what the key may have been there, and the operation that should have come next.
func (c Checked) Why() string {
	var longest []porcupine.Operation
	for _, order := range c.info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	placed := map[*history.Operation]bool{}
	state := c.model.Init()
	for _, step := range longest {
		_, state = c.model.Step(state, step.Input, step.Output)
		placed[step.Input.(*history.Operation)] = true
	}
	var next *history.Operation
	for _, o := range c.ops {
		if !placed[o] && (o.Answer != nil || o.Command() != nil) && (next == nil || o.Return < next.Return) {
			next = o
		}
	}
	text := fmt.Sprintf("%d of %d operations are in order; the last ones:\n", len(longest), len(c.ops))
	for _, step := range longest[max(0, len(longest)-6):] {
		text += "  " + step.Input.(*history.Operation).String() + "\n"
	}
	text += "the key may then have\n  " + strings.ReplaceAll(c.model.DescribeState(state), "\n", "\n  ") + "\n"
	if next != nil {
		text += "which does not go with\n  " + next.String() + "\n"
	}
	return text
}
