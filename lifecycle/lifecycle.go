// Package lifecycle holds the rules of a record's life as one pure function:
// (record or none, command, now) -> (record or none, verdict). Every store
// obeys it, and docs/semantics.md draws it.
//
// It imports the vocabulary and the standard library, talks to nothing, and
// knows nothing of defaults, clamps or validation: those are the server's.
package lifecycle

import (
	"github.com/oncekeeper/oncekeeper"
)

// Apply judges cmd against rec, the key's stored record or nil, at now, which
// is the store's clock. The record it gives is what is stored from then on: rec
// itself where nothing changes. It never changes rec in place.
func Apply(rec *oncekeeper.KeyRecord, cmd Command, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	switch c := cmd.(type) {
	case Begin:
		return begin(rec, c, now)
	case Renew:
		return renew(rec, c, now)
	case Settle:
		return settle(rec, c, now)
	case Resolve:
		return resolve(rec, c, now)
	case Delete:
		return remove(rec, c, now)
	default:
		return rec, Unreadable
	}
}

// begin: the first rule that fits.
func begin(rec *oncekeeper.KeyRecord, c Begin, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	switch {
	case rec == nil || Gone(rec, now):
		return firstGrant(rec, c, now), Granted
	case !readable(rec):
		return rec, InProgress
	case !fingerprintFits(rec, c):
		return rec, Mismatch
	case rec.State == oncekeeper.StoredCompleted || rec.State == oncekeeper.StoredFailed:
		return rec, Replayed
	case c.CallID != "" && c.CallID == rec.CallID:
		return beginAgain(rec, now)
	case live(rec, now):
		return rec, InProgress
	case rec.State == oncekeeper.StoredPending && rec.Granted.Hold:
		return rec, Unresolved
	case usedUp(rec):
		return giveUp(rec, now)
	default:
		return nextGrant(rec, c, now), Granted
	}
}

// beginAgain answers the retry of the call that was last granted. Its caller
// never had the grant, so a lease that ran out meanwhile starts anew; an attempt
// whose holder settled it is over, and the call with it.
func beginAgain(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	switch {
	case rec.State != oncekeeper.StoredPending || rec.Last != oncekeeper.SettledNot:
		return rec, AlreadySettled
	case live(rec, now):
		return rec, Granted
	default:
		next := change(rec)
		extendLease(next, now.Add(rec.Granted.Lease))
		return next, Granted
	}
}

// giveUp ends a key whose attempts are used up. Where an effect may stand it is
// held for someone to look; a record that was released is marked by the holder's
// last settlement as over, so that no clock brings it back to life.
func giveUp(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	next := change(rec)
	if rec.Takeover || rec.State == oncekeeper.StoredPending {
		next.State = oncekeeper.StoredPending
		next.Granted.Hold = true
		next.LeaseEnd = min(next.LeaseEnd, now)
		next.Expires = expiry(next, 0)
		return next, Unresolved
	}
	next.State = oncekeeper.StoredFailed
	next.Origin = oncekeeper.OriginExhausted
	next.Settled = now
	next.History = past(rec, now)
	next.Expires = expiry(next, next.Granted.Retention)
	return next, Replayed
}

func renew(rec *oncekeeper.KeyRecord, c Renew, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	if refusal := refuseToken(rec, c.Token, now); refusal != 0 {
		return rec, refusal
	}
	if rec.State != oncekeeper.StoredPending || rec.Last != oncekeeper.SettledNot {
		return rec, AlreadySettled
	}
	lease := c.Lease
	if lease == 0 {
		lease = rec.Granted.Lease
	}
	if now.Add(lease) <= rec.LeaseEnd && c.Checkpoint == nil {
		return rec, Renewed
	}
	next := change(rec)
	extendLease(next, now.Add(lease))
	if c.Checkpoint != nil {
		next.Checkpoint = c.Checkpoint
	}
	return next, Renewed
}

// settle takes the holder's word also when the lease ran out or the key is held:
// nobody took over, and the effect is what it is. After UNKNOWN, any other word
// says what was not known.
func settle(rec *oncekeeper.KeyRecord, c Settle, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	if refusal := refuseToken(rec, c.Token, now); refusal != 0 {
		return rec, refusal
	}
	if sameSettlement(rec, c) {
		return rec, Settled
	}
	if rec.State != oncekeeper.StoredPending || !open(rec.Last, c.As) {
		return rec, AlreadySettled
	}
	next := change(rec)
	next.Last = c.As
	next.Response, next.Status = c.Response, c.Status
	next.Origin = oncekeeper.OriginAttempt
	next.Settled = now
	switch c.As {
	case oncekeeper.SettledComplete:
		next.State = oncekeeper.StoredCompleted
	case oncekeeper.SettledFinal:
		next.State = oncekeeper.StoredFailed
	case oncekeeper.SettledRetryable:
		next.State = oncekeeper.StoredReleased
		if c.NotRun {
			next.NotRun = true
			next.Attempt--
		}
	case oncekeeper.SettledUnknown:
		next.LeaseEnd = min(next.LeaseEnd, now)
	default:
		return rec, Unreadable
	}
	retention := c.Retention
	if retention == 0 {
		retention = rec.Granted.Retention
	}
	next.Expires = expiry(next, retention)
	return next, Settled
}

// open: a holder that last said so may still say as. A pending record whose holder
// said retryable was released, and is held since its attempts were used up: there
// only what ends the key is taken, from whoever can prove it.
func open(said, as oncekeeper.Settlement) bool {
	switch said {
	case oncekeeper.SettledNot:
		return true
	case oncekeeper.SettledUnknown:
		return as != oncekeeper.SettledUnknown
	default:
		return as == oncekeeper.SettledComplete || as == oncekeeper.SettledFinal
	}
}

func resolve(rec *oncekeeper.KeyRecord, c Resolve, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	if refusal := refuseOperator(rec, c.Etag, c.Force, false, now); refusal != 0 {
		return rec, refusal
	}
	next := change(rec)
	next.Token = nextToken(rec, now)
	next.History = decided(rec, oncekeeper.HistoryEntry{Token: next.Token, Event: resolution(c), Ended: now, Reason: c.Reason, Principal: c.Principal})
	next.Last, next.NotRun = oncekeeper.SettledNot, false
	next.Response, next.Status = c.Response, c.Status
	next.Origin = oncekeeper.OriginOperator
	next.Settled = now
	switch {
	case c.Response != nil:
		next.State = oncekeeper.StoredCompleted
	case c.Status != nil:
		next.State = oncekeeper.StoredFailed
	default:
		release(next)
	}
	next.Expires = expiry(next, next.Granted.Retention)
	return next, Resolved
}

func resolution(c Resolve) oncekeeper.Event {
	switch {
	case c.Response != nil:
		return oncekeeper.EventResolvedCompleted
	case c.Status != nil:
		return oncekeeper.EventResolvedFailed
	default:
		return oncekeeper.EventResolvedReleased
	}
}

// remove forgets all but the token, which fences the next life from the last, and
// what the key went through, which is for people alone.
func remove(rec *oncekeeper.KeyRecord, c Delete, now oncekeeper.Instant) (*oncekeeper.KeyRecord, Verdict) {
	if refusal := refuseOperator(rec, c.Etag, c.Force, c.Force, now); refusal != 0 {
		return rec, refusal
	}
	next := &oncekeeper.KeyRecord{
		Key:            rec.Key,
		Token:          nextToken(rec, now),
		Revision:       rec.Revision + 1,
		AnyFingerprint: true,
		Granted:        rec.Granted,
		Created:        rec.Created,
		LeaseEnd:       min(rec.LeaseEnd, now),
		Origin:         oncekeeper.OriginOperator,
		Settled:        now,
	}
	next.History = decided(rec, oncekeeper.HistoryEntry{Token: next.Token, Event: oncekeeper.EventDeleted, Ended: now, Reason: c.Reason, Principal: c.Principal})
	release(next)
	next.Expires = expiry(next, next.Granted.Retention)
	return next, Deleted
}
