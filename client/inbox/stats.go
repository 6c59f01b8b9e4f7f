package inbox

import "sync/atomic"

// Stats counts tries to handle a message since the start: one for each call of
// Handle, for each round of HandleWait, and for each message of HandleAll and HandleEach. Every try is in one of them.
type Stats struct {
	// Handled: this try handled the message. Duplicate: it was handled before.
	Handled, Duplicate int64
	// InProgress, Failed and Unavailable: it is to come later, for that reason.
	InProgress, Failed, Unavailable int64
	// Exhausted, Unresolved, Final and Refused: it is a dead letter, for that reason.
	Exhausted, Unresolved, Final, Refused int64
}

// counters counts results: what was handled by its verdict, the rest by its reason.
type counters struct {
	handled, duplicate atomic.Int64
	reasons            [Refused + 1]atomic.Int64
}

func (c *counters) count(r Result) {
	switch r.Verdict {
	case Handled:
		c.handled.Add(1)
	case Duplicate:
		c.duplicate.Add(1)
	case Later, DeadLetter:
		c.reasons[r.Reason].Add(1)
	}
}

// Stats gives what was counted so far.
func (i *Inbox) Stats() Stats {
	of := func(r Reason) int64 { return i.stats.reasons[r].Load() }
	return Stats{
		Handled: i.stats.handled.Load(), Duplicate: i.stats.duplicate.Load(),
		InProgress: of(InProgress), Failed: of(Failed), Unavailable: of(Unavailable),
		Exhausted: of(Exhausted), Unresolved: of(Unresolved), Final: of(Final), Refused: of(Refused),
	}
}

// Subscriber gives the name that it was made with.
func (i *Inbox) Subscriber() string { return i.cfg.Subscriber }
