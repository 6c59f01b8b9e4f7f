// Package invariant holds single promises against a history of one key, each by its
// name. They need no model and no search, so a failure says at once which promise was
// broken; and each speaks only where it is sure, whatever was lost on the way.
package invariant

import (
	"bytes"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
)

// The invariants.
const (
	OneLiveGrant     = "one live grant a key"
	TokensGrow       = "tokens only grow"
	SettlementsStand = "an acknowledged settlement is never lost or changed"
	NoEarlyReplay    = "no replay before a settlement"
	NoMismatchPasses = "no mismatch ignored"
)

// Broken is an invariant that does not hold.
type Broken struct {
	Invariant string
	// By the second operation, given the first.
	First, Second *history.Operation
}

func (b Broken) String() string {
	if b.First == nil {
		return fmt.Sprintf("%s:\n  %s", b.Invariant, b.Second)
	}
	return fmt.Sprintf("%s:\n  %s\n  %s", b.Invariant, b.First, b.Second)
}

// Check gives the first break of each invariant in the operations of one key.
func Check(ops []*history.Operation) []Broken {
	var broken []Broken
	for _, check := range []func([]*history.Operation) *Broken{oneLiveGrant, tokensGrow, settlementsStand, noEarlyReplay, noMismatchPasses} {
		if b := check(ops); b != nil {
			broken = append(broken, *b)
		}
	}
	return broken
}

// before says whether a was over when b began.
func before(a, b *history.Operation) bool { return a.Return < b.Call }

// mayHave says whether o may have done what it asks before b was answered: it was
// asked by then, and not refused.
func mayHave(o, b *history.Operation) bool {
	return o.Call < b.Return && (o.Answer == nil || o.Answer.Verdict.Err() == nil)
}

// oneLiveGrant: no token is granted to two calls, and no key while the lease of
// another attempt is live that nobody ended.
func oneLiveGrant(ops []*history.Operation) *Broken {
	for _, a := range ops {
		for _, b := range ops {
			if a == b || !a.Granted() || !b.Granted() {
				continue
			}
			if a.Answer.Token == b.Answer.Token && (a.Begin.CallID == "" || a.Begin.CallID != b.Begin.CallID) {
				return &Broken{OneLiveGrant, a, b}
			}
			granted := b.Answer.LeaseEnd.Add(-b.Answer.Lease)
			if a.Answer.Token < b.Answer.Token && granted >= a.Earliest && granted < a.Answer.LeaseEnd && !ended(ops, a.Answer.Token, b) {
				return &Broken{OneLiveGrant, a, b}
			}
		}
	}
	return nil
}

// ended says whether the attempt of token may have been ended before b was answered.
func ended(ops []*history.Operation, token int64, b *history.Operation) bool {
	for _, o := range ops {
		if (o.Settle != nil && o.Settle.Token == token || o.Resolve != nil || o.Delete != nil) && mayHave(o, b) {
			return true
		}
	}
	return false
}

// tokensGrow: whoever asks later is told no smaller token.
func tokensGrow(ops []*history.Operation) *Broken {
	for _, a := range ops {
		for _, b := range ops {
			if x, y := tokenTold(a), tokenTold(b); x != 0 && y != 0 && y < x && before(a, b) {
				return &Broken{TokensGrow, a, b}
			}
		}
	}
	return nil
}

func tokenTold(o *history.Operation) int64 {
	switch a := o.Answer; {
	case a == nil:
		return 0
	case a.Record != nil:
		return a.Record.Token
	case a.Outcome != nil:
		return a.Outcome.Token
	default:
		return a.Token
	}
}

// settlementsStand: what a holder was told is settled is what everyone is told from
// then on, until it expires or is deleted.
func settlementsStand(ops []*history.Operation) *Broken {
	for _, s := range ops {
		if s.Settle == nil || s.Answer == nil || s.Answer.Verdict != lifecycle.Settled ||
			s.Settle.As != oncekeeper.SettledComplete && s.Settle.As != oncekeeper.SettledFinal {
			continue
		}
		for _, b := range ops {
			if b.Answer == nil || !before(s, b) || b.Latest >= s.Answer.Expires || deleted(ops, b) {
				continue
			}
			if b.Begin != nil && b.Answer.Verdict != lifecycle.Mismatch && !tells(b.Answer.Outcome, s.Settle) ||
				b.Get && (b.Answer.Record == nil || !tells(b.Answer.Record.Outcome, s.Settle)) {
				return &Broken{SettlementsStand, s, b}
			}
		}
	}
	return nil
}

func tells(o *oncekeeper.Outcome, s *lifecycle.Settle) bool {
	return o != nil && o.Token == s.Token && history.SameSaying(o.Response, o.Status, s.Response, s.Status)
}

// deleted says whether the record may have been deleted before b was answered.
func deleted(ops []*history.Operation, b *history.Operation) bool {
	for _, o := range ops {
		if o.Delete != nil && mayHave(o, b) {
			return true
		}
	}
	return false
}

// noEarlyReplay: an outcome that is told was given by someone before.
func noEarlyReplay(ops []*history.Operation) *Broken {
	for _, b := range ops {
		if outcome := outcomeTold(b); outcome != nil && !given(ops, outcome, b) {
			return &Broken{NoEarlyReplay, nil, b}
		}
	}
	return nil
}

// outcomeTold gives the outcome of a settled key, if o was told of one.
func outcomeTold(o *history.Operation) *oncekeeper.Outcome {
	switch a := o.Answer; {
	case a == nil:
		return nil
	case o.Get && a.Record != nil:
		return a.Record.Outcome
	default:
		return a.Outcome
	}
}

func given(ops []*history.Operation, outcome *oncekeeper.Outcome, b *history.Operation) bool {
	for _, o := range ops {
		if !mayHave(o, b) {
			continue
		}
		switch {
		case o.Settle != nil && outcome.Origin != oncekeeper.OriginOperator && tells(outcome, o.Settle),
			o.Resolve != nil && outcome.Origin == oncekeeper.OriginOperator &&
				history.SameSaying(outcome.Response, outcome.Status, o.Resolve.Response, o.Resolve.Status):
			return true
		}
	}
	return false
}

// noMismatchPasses: once a key is known to be of one request, another under it is
// refused, until the record may be gone.
func noMismatchPasses(ops []*history.Operation) *Broken {
	kept := leastKept(ops)
	for _, a := range ops {
		if a.Answer == nil || a.Answer.Record == nil || len(a.Answer.Record.Fingerprint) == 0 {
			continue
		}
		r := a.Answer.Record
		until := a.Earliest.Add(kept)
		if r.Expires != 0 {
			until = min(until, r.Expires)
		}
		for _, b := range ops {
			if b.Begin == nil || b.Answer == nil || b.Answer.Verdict == lifecycle.Mismatch || !before(a, b) || b.Latest >= until ||
				b.Begin.FingerprintScheme != r.FingerprintScheme || bytes.Equal(b.Begin.Fingerprint, r.Fingerprint) || deleted(ops, b) {
				continue
			}
			return &Broken{NoMismatchPasses, a, b}
		}
	}
	return nil
}

// leastKept is how long any settlement of the key is kept at the least.
func leastKept(ops []*history.Operation) time.Duration {
	least := 24 * time.Hour
	for _, o := range ops {
		if o.Begin != nil {
			least = min(least, o.Begin.Grant.Retention)
		}
		if o.Settle != nil && o.Settle.Retention > 0 {
			least = min(least, o.Settle.Retention)
		}
	}
	return least
}
