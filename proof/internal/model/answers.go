package model

import (
	"bytes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
)

// told says whether the caller of o was told what the rules say: the verdict, and
// every field that the record after it shows.
func told(o *history.Operation, rec *oncekeeper.KeyRecord, verdict lifecycle.Verdict, now oncekeeper.Instant) bool {
	a := o.Answer
	if a.Verdict != verdict {
		return false
	}
	switch verdict {
	case lifecycle.Granted:
		// Never longer than it is stored; less where the answer was given later.
		return a.Token == rec.Token && a.LeaseEnd == rec.LeaseEnd && a.Lease <= rec.LeaseEnd.Sub(now) && a.LeaseEnd.Add(-a.Lease) <= o.Latest &&
			a.Attempt == rec.Attempt && a.Takeover == rec.Takeover && bytes.Equal(a.Checkpoint, rec.Checkpoint)
	case lifecycle.Replayed:
		return history.SameOutcome(a.Outcome, rec.Outcome())
	case lifecycle.InProgress:
		return a.LeaseEnd == rec.LeaseEnd && a.Attempt == rec.Attempt
	case lifecycle.Unresolved:
		return a.Token == rec.Token && a.Attempt == rec.Attempt && a.Since == lifecycle.UnknownSince(rec) && bytes.Equal(a.Checkpoint, rec.Checkpoint)
	case lifecycle.Renewed:
		return a.LeaseEnd == rec.LeaseEnd && a.Lease == rec.LeaseEnd.Sub(now)
	case lifecycle.Settled:
		return a.Expires == rec.Expires
	case lifecycle.Resolved:
		return a.Record.Equal(history.ViewOf(rec, lifecycle.StateAt(rec, now)))
	default:
		return true
	}
}

// showed says whether a look at now would have shown what a shows.
func showed(rec *oncekeeper.KeyRecord, a *history.Answer, now oncekeeper.Instant) bool {
	if rec == nil || lifecycle.Gone(rec, now) {
		return a.Verdict == lifecycle.NotFound
	}
	return a.Record.Equal(history.ViewOf(rec, lifecycle.StateAt(rec, now)))
}
