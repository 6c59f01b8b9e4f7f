package grpcguard

import "sync/atomic"

// Stats counts calls since the start. Every call of a guarded method is in one of
// Keyless to Left; Superseded is in Ran too, and so is a call that ran and found the
// effect of an earlier one when its receipt was closed, which is Replayed besides.
// What was asked of receipts and reconcilers is in client.Stats.
type Stats struct {
	// NotGuarded: calls of methods that are not guarded; Streams: streams, which
	// never are.
	NotGuarded, Streams int64
	// Keyless: calls without a key, which ran unguarded.
	Keyless int64
	// Ran: attempts that were run.
	Ran int64
	// Superseded: attempts that were run and whose answer was dropped, since a
	// later attempt's counts.
	Superseded int64
	// Replayed: answers of earlier attempts.
	Replayed int64
	// NotKept: calls that ran before and whose response cannot be given.
	NotKept int64
	// InProgress: calls that were asked to come back.
	InProgress int64
	// Unresolved and Exhausted: calls of keys that are held, or given up.
	Unresolved, Exhausted int64
	// Mismatch: keys that came with another request; Refused: calls without a key
	// that needs one, with a bad key, or of no tenant.
	Mismatch, Refused int64
	// Unavailable: calls that Oncekeeper gave no verdict on, or none that the guard
	// could use.
	Unavailable int64
	// Left: calls whose caller left before they were begun.
	Left int64
	// OutageReceipts and OutageOpen: attempts that were run while Oncekeeper gave no
	// verdict, under the receipt alone, and unguarded. They are in Ran too.
	OutageReceipts, OutageOpen int64
}

type counters struct {
	notGuarded, streams, keyless, ran, superseded, replayed, notKept, inProgress,
	unresolved, exhausted, mismatch, refused, unavailable, left, outageReceipts, outageOpen atomic.Int64
}

func (c *counters) read() Stats {
	return Stats{
		NotGuarded: c.notGuarded.Load(), Streams: c.streams.Load(), Keyless: c.keyless.Load(),
		Ran: c.ran.Load(), Superseded: c.superseded.Load(), Replayed: c.replayed.Load(), NotKept: c.notKept.Load(),
		InProgress: c.inProgress.Load(), Unresolved: c.unresolved.Load(), Exhausted: c.exhausted.Load(),
		Mismatch: c.mismatch.Load(), Refused: c.refused.Load(), Unavailable: c.unavailable.Load(), Left: c.left.Load(),
		OutageReceipts: c.outageReceipts.Load(), OutageOpen: c.outageOpen.Load(),
	}
}
