// Package answers tells what calls of the service were answered, from the answers
// themselves, so that no handler has to say it; and counts it, in a number of
// series that no caller can add to. It decides no answer.
package answers

import "github.com/oncekeeper/oncekeeper/lifecycle"

// Verdict is what a call, or an item of a batch, was answered.
type Verdict uint8

// The verdicts. A grant is Takeover where an attempt before it may have run.
const (
	Done Verdict = iota // it has no verdicts of its own
	Granted
	Takeover
	Replayed
	Exhausted
	InProgress
	Unresolved
	Renewed
	Completed
	Failed
	Released
	Unknown
	Mismatch
	Fenced
	AlreadySettled
	NotFound
	EtagMismatch
	AskAlone
	Invalid
	Overloaded
	Unavailable
	Refused
	Left
	Internal
	verdicts // how many there are
)

// names are lifecycle's own, where it has one.
var names = [verdicts]string{
	Done: "done", Granted: lifecycle.Granted.String(), Takeover: "takeover", Replayed: lifecycle.Replayed.String(), Exhausted: "exhausted",
	InProgress: lifecycle.InProgress.String(), Unresolved: lifecycle.Unresolved.String(), Renewed: lifecycle.Renewed.String(),
	Completed: "completed", Failed: "failed", Released: "released", Unknown: "unknown",
	Mismatch: lifecycle.Mismatch.String(), Fenced: lifecycle.Fenced.String(), AlreadySettled: lifecycle.AlreadySettled.String(),
	NotFound: lifecycle.NotFound.String(), EtagMismatch: lifecycle.EtagMismatch.String(), AskAlone: "ask_alone",
	Invalid: "invalid", Overloaded: "overloaded", Unavailable: "unavailable", Refused: "refused", Left: "left", Internal: "internal",
}

func (v Verdict) String() string { return names[v] }

// Names gives the name of every verdict.
func Names() []string { return names[:] }
