package lifecycle_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
)

// told is what the holder of the last attempt knows from the answers it was
// given, and nothing of the record behind them.
type told struct {
	token    int64
	leaseEnd oncekeeper.Instant
	over     bool // it settled, or an operator overruled it
}

// hear takes one answer in and gives whether an attempt was newly granted.
func (h *told) hear(s step) (granted bool) {
	switch s.verdict {
	case lifecycle.Granted:
		granted = s.after.Token != h.token
		*h = told{token: s.after.Token, leaseEnd: s.after.LeaseEnd}
	case lifecycle.Renewed:
		h.leaseEnd = s.after.LeaseEnd
	case lifecycle.Settled, lifecycle.Resolved, lifecycle.Deleted:
		h.over = true
	}
	return granted
}

func TestNoSecondGrantWhileAnAttemptIsLiveAndUnsettled(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		var holder told
		randomLife(t, true, func(s step) {
			before := holder
			if holder.hear(s) && !before.over && s.now < before.leaseEnd {
				t.Fatalf("granted token %d at %d, while token %d is live until %d",
					holder.token, s.now, before.token, before.leaseEnd)
			}
			if s.verdict == lifecycle.Resolved || s.verdict == lifecycle.Deleted {
				if force := forced(s.cmd); !force && !before.over && s.now < before.leaseEnd {
					t.Fatalf("an operator overruled the live token %d without force", before.token)
				}
			}
		})
	})
}

func forced(cmd lifecycle.Command) bool {
	switch c := cmd.(type) {
	case lifecycle.Resolve:
		return c.Force
	case lifecycle.Delete:
		return c.Force
	default:
		return false
	}
}

func TestOnlyTheLastGrantedTokenSettlesOrRenews(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		var holder told
		var overruled bool
		randomLife(t, true, func(s step) {
			var token int64
			switch c := s.cmd.(type) {
			case lifecycle.Settle:
				token = c.Token
			case lifecycle.Renew:
				token = c.Token
			}
			accepted := s.verdict == lifecycle.Settled || s.verdict == lifecycle.Renewed
			if accepted && (token != holder.token || overruled) {
				t.Fatalf("token %d was heard; the last one granted is %d, overruled: %v", token, holder.token, overruled)
			}
			if holder.hear(s) {
				overruled = false
			}
			overruled = overruled || s.verdict == lifecycle.Resolved || s.verdict == lifecycle.Deleted
		})
	})
}

// standing is the memory of a watcher who sees the answers alone: whether some
// attempt of this life may have left an effect, and until when that must be known.
type standing struct {
	running bool // the last attempt was granted and nothing was said of it
	unknown bool // or it was said to be unknown
	effect  bool // of an attempt before the last
	until   oncekeeper.Instant
}

func (w *standing) watch(s step) {
	switch s.verdict {
	case lifecycle.Granted, lifecycle.Renewed:
		if s.newLife() {
			*w = standing{}
		}
		if s.verdict == lifecycle.Granted && (s.before == nil || s.before.Token != s.after.Token) {
			w.effect = w.effect || w.running || w.unknown
			w.running, w.unknown = true, false
		}
		w.until = max(w.until, s.after.LeaseEnd.Add(s.after.Granted.UnsettledRetention))
	case lifecycle.Settled:
		if s.after != s.before {
			w.running = false
			w.unknown = s.cmd.(lifecycle.Settle).As == oncekeeper.SettledUnknown
		}
	case lifecycle.Resolved, lifecycle.Deleted:
		*w = standing{}
	}
}

func TestThatAnEffectMayStandIsNeverForgottenNorRefusedBeside(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		var w standing
		randomLife(t, false, func(s step) {
			stood := w
			w.watch(s)
			mayStand := stood.effect || stood.running || stood.unknown
			settled := s.before != nil && s.before.Outcome() != nil
			if s.newLife() && mayStand && !settled && s.now < stood.until {
				t.Fatalf("forgotten at %d, which must be known until %d", s.now, stood.until)
			}
			if s.after == nil || lifecycle.Gone(s.after, s.now) {
				return
			}
			if s.verdict == lifecycle.Granted && s.after.Takeover != w.effect {
				t.Fatalf("takeover is %v; that an earlier effect may stand is %v", s.after.Takeover, w.effect)
			}
			if s.after.Origin == oncekeeper.OriginExhausted && mayStand && s.after != s.before {
				t.Fatalf("given up as failed beside an effect that may stand: %+v", s.after)
			}
		})
	})
}

// TestAKeyIsNeverStuck: from wherever a key has come, once its lease is over and
// unless it is held, a new call gets an attempt or an outcome; and an operator
// can always free it.
func TestAKeyIsNeverStuck(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		var last step
		randomLife(t, true, func(s step) { last = s })
		rec, later := last.after, last.now
		if rec == nil {
			return
		}
		later = max(later, rec.LeaseEnd)
		fresh := lifecycle.Begin{
			Key: key, CallID: "fresh", Fingerprint: rec.Fingerprint, FingerprintScheme: rec.FingerprintScheme, Grant: standard,
		}
		next, verdict := lifecycle.Apply(rec, fresh, later)
		switch verdict {
		case lifecycle.Granted, lifecycle.Replayed:
		case lifecycle.Unresolved:
			next, verdict = lifecycle.Apply(next, lifecycle.Resolve{Key: key, Etag: next.Etag()}, later)
			if verdict != lifecycle.Resolved {
				t.Fatalf("a held key was not released: %v %+v", verdict, next)
			}
			if next, verdict = lifecycle.Apply(next, fresh, later); verdict != lifecycle.Granted {
				t.Fatalf("a released key was not granted: %v %+v", verdict, next)
			}
		default:
			t.Fatalf("after its lease: %v on %s", verdict, lifecycletest.Diff(rec, next))
		}
	})
}
