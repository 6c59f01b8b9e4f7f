package lifecycle

import (
	"bytes"
	"slices"
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// Gone says whether rec has expired at now: it is then no record for any
// command, swept or not. An unreadable record is never gone.
func Gone(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) bool {
	return readable(rec) && rec.Expires != 0 && now >= rec.Expires
}

// StateAt gives rec's state as read at now; rec is not gone. An unreadable
// record reads as pending.
func StateAt(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) oncekeeper.State {
	if !readable(rec) {
		return oncekeeper.StatePending
	}
	switch rec.State {
	case oncekeeper.StoredReleased:
		return oncekeeper.StateReleased
	case oncekeeper.StoredCompleted:
		return oncekeeper.StateCompleted
	case oncekeeper.StoredFailed:
		return oncekeeper.StateFailed
	case oncekeeper.StoredPending:
		switch {
		case live(rec, now):
			return oncekeeper.StatePending
		case rec.Granted.Hold:
			return oncekeeper.StateUnresolved
		default:
			return oncekeeper.StateAbandoned
		}
	default:
		return oncekeeper.StatePending
	}
}

// UnknownSince is when the last attempt of a lapsed record ended: when its holder
// said so, else the end of its lease.
func UnknownSince(rec *oncekeeper.KeyRecord) oncekeeper.Instant {
	if rec.Last != oncekeeper.SettledNot {
		return rec.Settled
	}
	return rec.LeaseEnd
}

// readable: this version knows the state and what the holder said. A settlement
// that a newer version added must not read as a lapse, which frees the key.
func readable(rec *oncekeeper.KeyRecord) bool {
	return rec.State >= oncekeeper.StoredPending && rec.State <= oncekeeper.StoredFailed &&
		rec.Last <= oncekeeper.SettledUnknown
}

// live: pending, unsettled, and its lease not over. What its holder said counts
// beside the lease's end, since the clock may step back.
func live(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) bool {
	return rec.State == oncekeeper.StoredPending && rec.Last == oncekeeper.SettledNot && now < rec.LeaseEnd
}

// usedUp: no attempt may follow. An attempt that was given back and not run may be
// made again, whatever its grant asked for: it was allowed, and nothing came of it.
func usedUp(rec *oncekeeper.KeyRecord) bool {
	return !rec.NotRun && rec.Granted.MaxAttempts > 0 && rec.Attempt >= rec.Granted.MaxAttempts
}

func fingerprintFits(rec *oncekeeper.KeyRecord, c Begin) bool {
	return rec.AnyFingerprint || rec.FingerprintScheme != c.FingerprintScheme ||
		bytes.Equal(rec.Fingerprint, c.Fingerprint)
}

// nextToken grows past the last token even where the clock did not.
func nextToken(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) int64 {
	if rec == nil {
		return max(1, int64(now))
	}
	return max(rec.Token+1, int64(now))
}

// change starts a new version of rec.
func change(rec *oncekeeper.KeyRecord) *oncekeeper.KeyRecord {
	next := *rec
	next.Revision++
	return &next
}

// firstGrant starts a life; old is the expired record of the last one, if it is
// still stored.
func firstGrant(old *oncekeeper.KeyRecord, c Begin, now oncekeeper.Instant) *oncekeeper.KeyRecord {
	next := &oncekeeper.KeyRecord{Key: c.Key, Token: nextToken(old, now), Created: now}
	next.Fingerprint, next.FingerprintScheme = c.Fingerprint, c.FingerprintScheme
	return grant(next, c, now)
}

func nextGrant(rec *oncekeeper.KeyRecord, c Begin, now oncekeeper.Instant) *oncekeeper.KeyRecord {
	next := *rec
	next.Token = nextToken(rec, now)
	next.Takeover = rec.Takeover || rec.State == oncekeeper.StoredPending
	next.History = past(rec, now)
	if rec.AnyFingerprint {
		next.AnyFingerprint = false
		next.Fingerprint, next.FingerprintScheme = c.Fingerprint, c.FingerprintScheme
	}
	return grant(&next, c, now)
}

func grant(next *oncekeeper.KeyRecord, c Begin, now oncekeeper.Instant) *oncekeeper.KeyRecord {
	next.State = oncekeeper.StoredPending
	next.Revision++
	next.Attempt++
	next.CallID = c.CallID
	next.Holder, next.Principal, next.TraceParent = c.Holder, c.Principal, c.TraceParent
	next.Granted = c.Grant
	next.Last, next.NotRun = oncekeeper.SettledNot, false
	next.Response, next.Status, next.Origin, next.Settled = nil, nil, 0, 0
	next.LeaseEnd = 0
	extendLease(next, now.Add(c.Grant.Lease))
	return next
}

// extendLease never shortens the lease, nor how long an unknown outcome is
// remembered.
func extendLease(next *oncekeeper.KeyRecord, end oncekeeper.Instant) {
	next.LeaseEnd = max(next.LeaseEnd, end)
	next.UnsettledUntil = max(next.UnsettledUntil, next.LeaseEnd.Add(next.Granted.UnsettledRetention))
	next.Expires = expiry(next, 0)
}

// release gives the key free on an operator's word that nothing stands. The call
// id stays, so that a late retry of the last call is not mistaken for a new one.
func release(next *oncekeeper.KeyRecord) {
	next.State = oncekeeper.StoredReleased
	next.Attempt = 0
	next.Takeover = false
	next.UnsettledUntil = 0
}

// expiry gives when next is gone, or zero for never. A caller's short retention
// must not hide that an effect may stand, nor end before its own lease would. And
// a token is a moment: a record outlives its own, so that the next life's token is
// greater although the clock stepped back and the record was swept.
func expiry(next *oncekeeper.KeyRecord, retention time.Duration) oncekeeper.Instant {
	pastToken := oncekeeper.Instant(next.Token) + 1
	if next.State == oncekeeper.StoredPending {
		if next.Granted.Hold {
			return 0
		}
		return max(next.UnsettledUntil, pastToken)
	}
	end := next.Settled.Add(max(retention, next.Granted.Lease))
	if next.State == oncekeeper.StoredReleased && next.Takeover {
		end = max(end, next.UnsettledUntil)
	}
	return max(end, pastToken)
}

// refuseToken gives why the holder of token may not speak for rec, or 0.
func refuseToken(rec *oncekeeper.KeyRecord, token int64, now oncekeeper.Instant) Verdict {
	switch {
	case rec == nil || Gone(rec, now):
		return NotFound
	case !readable(rec):
		return Unreadable
	case rec.Token != token:
		return Fenced
	default:
		return 0
	}
}

// refuseOperator gives why an operator who read etag may not change rec, or 0.
func refuseOperator(rec *oncekeeper.KeyRecord, etag string, force, alsoSettled bool, now oncekeeper.Instant) Verdict {
	switch {
	case rec == nil || Gone(rec, now):
		return NotFound
	case !readable(rec):
		return Unreadable
	case rec.Outcome() != nil && !alsoSettled:
		return AlreadySettled
	case rec.Etag() != etag:
		return EtagMismatch
	case live(rec, now) && !force:
		return Live
	default:
		return 0
	}
}

// sameSettlement compares by field what was said and what is said again; for how
// long to keep it is not part of it.
func sameSettlement(rec *oncekeeper.KeyRecord, c Settle) bool {
	return rec.Last == c.As && rec.NotRun == c.NotRun && sameResponse(rec.Response, c.Response) && sameStatus(rec.Status, c.Status)
}

func sameResponse(a, b *oncekeeper.Response) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Body, b.Body) && a.ContentType == b.ContentType && a.Omitted == b.Omitted &&
		a.StatusCode == b.StatusCode && a.Resource == b.Resource &&
		slices.EqualFunc(a.Metadata, b.Metadata, func(x, y oncekeeper.MetadataEntry) bool {
			return x.Kind == y.Kind && x.Name == y.Name && bytes.Equal(x.Value, y.Value)
		})
}

func sameStatus(a, b *oncekeeper.Status) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Message == b.Message && slices.EqualFunc(a.Details, b.Details, bytes.Equal)
}
