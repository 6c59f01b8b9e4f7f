package oncekeeper

import "fmt"

// Limits of what is kept of what a key went through. A record is read and written
// whole, so they bound what a key that is tried for ever costs each attempt: about
// 4 KiB, and 7 KiB with a long reason in every entry.
const (
	// MaxHistory is how many entries a record keeps; the oldest goes first. What led
	// to where a key stands is mostly its last few attempts.
	MaxHistory = 8
	// MaxHistoryMessageBytes bounds the text of a status that an entry keeps, in
	// bytes; it is cut at a rune.
	MaxHistoryMessageBytes = 200
	// MaxReasonBytes bounds why an operator acted, which is kept whole.
	MaxReasonBytes = 512
)

// HistoryEntry is one thing that a key went through: an attempt, or what an
// operator did.
type HistoryEntry struct {
	// Token names the attempt, or is the one that the operator's act took.
	Token int64
	Event Event
	// Attempt is the attempt's number, and Holder who ran it; none for an operator's
	// act.
	Attempt int32
	Holder  string
	// Ended is when the attempt ended or the operator acted; none while it runs.
	Ended Instant
	// Code and Message are of the status that the attempt's holder gave, the message
	// cut to MaxHistoryMessageBytes; 0 and none where it gave none.
	Code    int32
	Message string
	// Reason is why the operator acted.
	Reason string
	// Principal is who began the attempt, or was the operator, as the server knows it;
	// empty where anyone may call.
	Principal string
	// TraceParent is the W3C traceparent of the span in which the attempt was begun.
	TraceParent string
}

// Started is when the attempt was granted; none for an operator's act. A token is a
// moment, so nothing is stored for it; where the store's clock had stepped back the
// token is ahead of the moment, and Started may be after Ended.
func (e HistoryEntry) Started() Instant {
	if e.Event.ByOperator() {
		return 0
	}
	return Instant(e.Token)
}

// Event is how an attempt stands or ended, or what an operator did.
type Event uint8

// The events. Those of an attempt come first.
const (
	// EventRunning: its lease is live. It is told of a record's last attempt, and
	// never stored.
	EventRunning Event = 1
	// EventCompleted: its holder gave a response.
	EventCompleted Event = 2
	// EventFailed: its holder gave the failure that is the answer.
	EventFailed Event = 3
	// EventReleased: its holder said that nothing happened.
	EventReleased Event = 4
	// EventUnknown: its holder said that nobody knows.
	EventUnknown Event = 5
	// EventLapsed: its lease ran out, and its holder said nothing.
	EventLapsed Event = 6
	// EventOverruled: an operator decided the key under its live lease.
	EventOverruled Event = 7
	// EventNotRun: its holder gave it back, and its function was not called. One that
	// follows another takes its place, so that an outage does not push out the rest.
	EventNotRun Event = 8

	// EventResolvedCompleted: an operator said that it happened.
	EventResolvedCompleted Event = 17
	// EventResolvedFailed: an operator said that it did not, and will not.
	EventResolvedFailed Event = 18
	// EventResolvedReleased: an operator said that it did not, and let it run again.
	EventResolvedReleased Event = 19
	// EventDeleted: an operator had what was known forgotten.
	EventDeleted Event = 20
)

var eventNames = map[Event]string{
	EventRunning: "RUNNING", EventCompleted: "COMPLETED", EventFailed: "FAILED", EventReleased: "RELEASED",
	EventUnknown: "UNKNOWN", EventLapsed: "LEASE_EXPIRED", EventOverruled: "OVERRULED", EventNotRun: "NOT_RUN",
	EventResolvedCompleted: "RESOLVED_COMPLETED", EventResolvedFailed: "RESOLVED_FAILED",
	EventResolvedReleased: "RESOLVED_RELEASED", EventDeleted: "DELETED",
}

// Known: this version knows the event. One that it does not is a newer version's.
func (e Event) Known() bool { return eventNames[e] != "" }

// ByOperator: an operator did it.
func (e Event) ByOperator() bool { return e >= EventResolvedCompleted && e <= EventDeleted }

func (e Event) String() string {
	if name := eventNames[e]; name != "" {
		return name
	}
	return fmt.Sprintf("Event(%d)", uint8(e))
}
