package model

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// observed are the instants that answers about a key told, by what they may be.
type observed struct {
	judged   []oncekeeper.Instant // of a command: tokens, settlements, creations
	ends     []oncekeeper.Instant // of leases
	expiries []oncekeeper.Instant

	// lapsed and gone are by when at the latest a lease, or a record, was seen to be
	// over.
	lapsed, gone []oncekeeper.Instant
}

func observe(ops []*history.Operation) observed {
	var s observed
	outcome := func(o *oncekeeper.Outcome) {
		if o != nil {
			s.judged = append(s.judged, oncekeeper.Instant(o.Token), o.Settled)
			s.expiries = append(s.expiries, o.Expires)
		}
	}
	for _, o := range ops {
		// What is asked names tokens too.
		switch {
		case o.Renew != nil:
			s.judged = append(s.judged, oncekeeper.Instant(o.Renew.Token))
		case o.Settle != nil:
			s.judged = append(s.judged, oncekeeper.Instant(o.Settle.Token))
		case o.Resolve != nil:
			s.judged = append(s.judged, tokenOf(o.Resolve.Etag))
		case o.Delete != nil:
			s.judged = append(s.judged, tokenOf(o.Delete.Etag))
		}
		a := o.Answer
		if a == nil {
			continue
		}
		switch {
		case a.Verdict == lifecycle.NotFound:
			s.gone = append(s.gone, o.Latest)
		case a.Verdict == lifecycle.Unresolved, a.Verdict == lifecycle.Deleted,
			a.Record != nil && (a.Record.State == oncekeeper.StateAbandoned || a.Record.State == oncekeeper.StateUnresolved):
			s.lapsed = append(s.lapsed, o.Latest)
		}
		s.judged = append(s.judged, oncekeeper.Instant(a.Token), a.Since)
		s.ends = append(s.ends, a.LeaseEnd)
		s.expiries = append(s.expiries, a.Expires)
		if a.Lease != 0 {
			s.judged = append(s.judged, a.LeaseEnd.Add(-a.Lease))
		}
		outcome(a.Outcome)
		if r := a.Record; r != nil {
			s.judged = append(s.judged, oncekeeper.Instant(r.Token), r.Created, r.Settled)
			s.ends = append(s.ends, r.LeaseEnd)
			s.expiries = append(s.expiries, r.Expires)
			outcome(r.Outcome)
		}
	}
	// Two commands of one moment: the second's token is one more, and tells the moment
	// of neither; the end of a lease that counts from it does.
	var leases []time.Duration
	for _, o := range ops {
		if lease := leaseFrom(o, nil); lease > 0 && !slices.Contains(leases, lease) {
			leases = append(leases, lease)
		}
	}
	for _, end := range s.ends {
		for _, lease := range leases {
			s.judged = append(s.judged, end.Add(-lease))
		}
	}
	for _, set := range []*[]oncekeeper.Instant{&s.judged, &s.ends, &s.expiries, &s.lapsed, &s.gone} {
		slices.Sort(*set)
		*set = slices.Compact(*set)
	}
	return s
}

func tokenOf(etag string) oncekeeper.Instant {
	token, _, _ := strings.Cut(etag, "-")
	n, _ := strconv.ParseInt(token, 10, 64)
	return oncekeeper.Instant(n)
}

// moments gives when o may have been judged, on the store's clock, as far as it makes
// a difference: to a verdict, or to a field that some answer shows.
//
// That no real moment is missed, but for one that nobody can tell from one given:
//
//   - A verdict depends on the moment by the end of the lease and by the expiry of the
//     record alone. So one moment on each side of each is enough, and the first and the
//     last there are.
//   - What a command writes of its moment is the moment itself (token, settlement,
//     creation), the end of a lease that counts from it, or an expiry that does. Where
//     any answer shows one of these, the moment is worked out from it.
//   - One that no answer shows can matter only by being before or after another
//     command's moment: by itself, through the tokens of both, or through a lease or a
//     record that ran out by then. Of all moments that are early enough for some of
//     these the latest is tried: if any would do that are late enough for the others,
//     it does.
func (s observed) moments(o *history.Operation, rec *oncekeeper.KeyRecord) []oncekeeper.Instant {
	var all []oncekeeper.Instant
	add := func(at oncekeeper.Instant) {
		if at >= o.Earliest && at <= o.Latest && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	if a := o.Answer; a != nil {
		switch a.Verdict {
		case lifecycle.Granted:
			add(a.LeaseEnd.Add(-a.Lease))
			add(a.LeaseEnd.Add(-o.Begin.Grant.Lease))
			return all
		case lifecycle.Renewed:
			add(a.LeaseEnd.Add(-a.Lease))
			return all
		case lifecycle.Resolved:
			add(a.Record.Settled)
			return all
		case lifecycle.Settled:
			if rec != nil && o.Settle != nil {
				add(a.Expires.Add(-keptFor(o.Settle, rec)))
			}
		case lifecycle.Replayed:
			add(a.Outcome.Settled) // where this very Begin gave it up
		}
	}
	add(o.Earliest)
	add(o.Latest)
	if rec != nil {
		for _, at := range []oncekeeper.Instant{rec.LeaseEnd, rec.Expires} {
			add(at - 1)
			add(at)
		}
	}
	if !o.Hidden() {
		return all
	}
	if rec != nil {
		add(oncekeeper.Instant(rec.Token))
	}
	each := func(from []oncekeeper.Instant, d time.Duration) {
		for _, at := range from {
			add(at.Add(-d))
		}
	}
	each(s.judged, 0)
	if o.Settle == nil {
		// It takes a token, and some later command a greater one; or it renews, and some
		// later renewal for longer: it was before that.
		each(s.judged, time.Microsecond)
		each(s.judged, 2*time.Microsecond)
	}
	each(s.ends, 0) // a lease ends at once where the holder does not know
	if lease := leaseFrom(o, rec); lease > 0 {
		each(s.ends, lease)
		each(s.judged, lease)
		each(s.lapsed, lease)
		each(s.expiries, lease+unsettledRetention)
	}
	if kept := retentionFrom(o, rec); kept > 0 {
		each(s.expiries, kept)
		each(s.judged, kept)
		each(s.gone, kept)
	}
	return all
}

// unsettledRetention is of every grant of a server that was told no policy.
var unsettledRetention = oncekeeper.CeilMicrosecond(policy.Default().UnsettledRetention)

// leaseFrom gives the lease that o counts from its moment.
func leaseFrom(o *history.Operation, rec *oncekeeper.KeyRecord) time.Duration {
	switch {
	case o.Begin != nil:
		return o.Begin.Grant.Lease
	case o.Renew != nil && o.Renew.Lease > 0:
		return o.Renew.Lease
	case o.Renew != nil && rec != nil:
		return rec.Granted.Lease
	default:
		return 0
	}
}

// retentionFrom gives how long o keeps the record from its moment.
func retentionFrom(o *history.Operation, rec *oncekeeper.KeyRecord) time.Duration {
	switch {
	case rec == nil:
		return 0
	case o.Settle != nil:
		return keptFor(o.Settle, rec)
	case o.Resolve != nil || o.Delete != nil:
		return max(rec.Granted.Retention, rec.Granted.Lease)
	default:
		return 0
	}
}

func keptFor(c *lifecycle.Settle, rec *oncekeeper.KeyRecord) time.Duration {
	retention := c.Retention
	if retention == 0 {
		retention = rec.Granted.Retention
	}
	return max(retention, rec.Granted.Lease)
}
