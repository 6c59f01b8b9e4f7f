// Package lifecycletest holds the rules of a record's life as sequences of
// events, so that each rule stands once and is played both on the pure function
// and through every store.
//
// It knows the vocabulary and lifecycle. What a Scenario is played on is a
// Subject, and a Subject's affair.
package lifecycletest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// Subject obeys the rules: the pure function, or a store.
type Subject interface {
	// Apply judges cmd and gives the record as it is stored from then on, nil for
	// none, and the moment at which cmd was judged.
	Apply(cmd lifecycle.Command) (*oncekeeper.KeyRecord, lifecycle.Verdict, oncekeeper.Instant)
	// Advance moves the clock on by d.
	Advance(d time.Duration)
}

// Scenario is a rule, told by the sequence of events that breaks a simpler one.
type Scenario struct {
	// Name is the rule as a sentence.
	Name string
	// Play runs the sequence and fails the Life's test where the rule is broken.
	Play func(l *Life)
}

// Scenarios gives every rule that a Subject can be asked to keep.
func Scenarios() []Scenario {
	var all []Scenario
	for _, part := range [][]Scenario{
		beginning, mismatching(), fingerprinting, callIDs, takingOver, givingUp,
		renewing, settling, repeating(), resolving, deleting, expiring, remembering, telling, givingBack,
	} {
		all = append(all, part...)
	}
	return all
}

// What a Life's attempts are given unless a scenario says otherwise. They are
// far apart, so that no clock that flows by itself crosses from one to the next.
const (
	lease     = time.Minute
	retention = time.Hour
	unsettled = 30 * 24 * time.Hour
)

// Life is one key on its way through a Scenario.
type Life struct {
	// T is failed, with the story so far, at the first broken expectation.
	T testing.TB
	// On is what is put to the test.
	On Subject
	// Key that all commands are about; it has no record yet.
	Key oncekeeper.Key
	// Moment is the shortest time by which this side of a boundary can be told
	// from the other: a microsecond, or more where the clock flows by itself.
	Moment time.Duration

	rec   *oncekeeper.KeyRecord
	now   oncekeeper.Instant
	calls int
	story []string
}

// play has cmd judged and gives the record after it.
func (l *Life) play(want lifecycle.Verdict, cmd lifecycle.Command) *oncekeeper.KeyRecord {
	l.T.Helper()
	rec, verdict, now := l.On.Apply(cmd)
	l.tell("%T%+v -> %v", cmd, cmd, verdict)
	if verdict != want {
		l.fail("verdict", verdict, want)
	}
	if verdict == lifecycle.NotFound {
		rec = nil
	}
	l.rec, l.now = rec, now
	return rec
}

// wait moves the clock on.
func (l *Life) wait(d time.Duration) {
	l.tell("%v pass", d)
	l.On.Advance(d)
}

// unchanged plays cmd, which must leave the record as it was.
func (l *Life) unchanged(want lifecycle.Verdict, cmd lifecycle.Command) {
	l.T.Helper()
	before := l.rec
	after := l.play(want, cmd)
	if before == nil || after == nil {
		l.fail("record", after, before)
	}
	expect(l, "etag of a record that nothing changed", after.Etag(), before.Etag())
	if difference := Diff(before, after); difference != "" {
		l.fail("change of the record", difference, "none")
	}
}

func (l *Life) tell(format string, args ...any) {
	l.story = append(l.story, fmt.Sprintf(format, args...))
}

func (l *Life) fail(what string, got, want any) {
	l.T.Helper()
	l.T.Fatalf("%s: got %+v, want %+v, after:\n  %s\nrecord: %+v\nnow: %d",
		what, got, want, strings.Join(l.story, "\n  "), l.rec, l.now)
}

func expect[V comparable](l *Life, what string, got, want V) {
	l.T.Helper()
	if got != want {
		l.fail(what, got, want)
	}
}

// state expects the record to read as want.
func (l *Life) state(want oncekeeper.State) {
	l.T.Helper()
	expect(l, "state", lifecycle.StateAt(l.rec, l.now), want)
}
