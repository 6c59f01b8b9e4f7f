package httpguard

import "sync/atomic"

// Stats counts requests since the start. Every request is in one of NotGuarded to
// Left; Superseded, NotWhole and TooLarge are in Ran too, and so is a request that
// ran and is Replayed or Unavailable besides, since its receipt said otherwise or
// could not be asked. What was asked of receipts and reconcilers is in client.Stats.
type Stats struct {
	// NotGuarded: requests of safe methods.
	NotGuarded int64
	// Keyless: requests without a key, which ran unguarded.
	Keyless int64
	// Ran: attempts that were run.
	Ran int64
	// Superseded: attempts that were run and whose answer was dropped or broken off,
	// since a later attempt's counts.
	Superseded int64
	// NotWhole: attempts whose answer was not all there.
	NotWhole int64
	// TooLarge: attempts whose answer went out and was too large to keep.
	TooLarge int64
	// Replayed: answers of earlier attempts.
	Replayed int64
	// NotKept: requests that ran before and whose answer cannot be given.
	NotKept int64
	// InProgress: requests that were asked to come back.
	InProgress int64
	// Unresolved and Exhausted: requests of keys that are held, or given up.
	Unresolved, Exhausted int64
	// Mismatch: keys that came with another request; Refused: requests without a key
	// that need one, with a bad key or body, or of no tenant.
	Mismatch, Refused int64
	// Unavailable: requests that Oncekeeper gave no verdict on, or none that the
	// guard could use.
	Unavailable int64
	// Left: requests whose caller left before they were begun.
	Left int64
	// OutageReceipts and OutageOpen: attempts that were run while Oncekeeper gave no
	// verdict, under the receipt alone, and unguarded. They are in Ran too.
	OutageReceipts, OutageOpen int64
}

type counters struct {
	notGuarded, keyless, ran, superseded, notWhole, tooLarge, replayed, notKept, inProgress,
	unresolved, exhausted, mismatch, refused, unavailable, left, outageReceipts, outageOpen atomic.Int64
}

func (c *counters) read() Stats {
	return Stats{
		NotGuarded: c.notGuarded.Load(), Keyless: c.keyless.Load(), Ran: c.ran.Load(), Superseded: c.superseded.Load(),
		NotWhole: c.notWhole.Load(), TooLarge: c.tooLarge.Load(),
		Replayed: c.replayed.Load(), NotKept: c.notKept.Load(), InProgress: c.inProgress.Load(),
		Unresolved: c.unresolved.Load(), Exhausted: c.exhausted.Load(),
		Mismatch: c.mismatch.Load(), Refused: c.refused.Load(), Unavailable: c.unavailable.Load(), Left: c.left.Load(),
		OutageReceipts: c.outageReceipts.Load(), OutageOpen: c.outageOpen.Load(),
	}
}
