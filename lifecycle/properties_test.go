package lifecycle_test

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
)

// step is a command and what became of it.
type step struct {
	cmd           lifecycle.Command
	before, after *oncekeeper.KeyRecord
	verdict       lifecycle.Verdict
	now           oncekeeper.Instant
}

// newLife: the step began a key that had no record, or only one that was gone.
func (s step) newLife() bool {
	return s.after != s.before && (s.before == nil || lifecycle.Gone(s.before, s.now))
}

// randomLife plays random commands on one key and shows each step to look. The
// clock moves on, or with back also steps back.
func randomLife(t *rapid.T, back bool, look func(s step)) {
	var past lifecycletest.Past
	var rec *oncekeeper.KeyRecord
	now := start
	for range rapid.IntRange(1, 40).Draw(t, "commands") {
		now = now.Add(lifecycletest.DrawStep(t, now, lifecycletest.Ends(rec)...))
		if back && rapid.IntRange(0, 9).Draw(t, "steps back") == 0 {
			now -= oncekeeper.Instant(rapid.Int64Range(1, int64(2*time.Minute/time.Microsecond)).Draw(t, "back"))
		}
		cmd := lifecycletest.DrawCommand(t, key, past)
		after, verdict := lifecycle.Apply(rec, cmd, now)
		t.Logf("%d: %T%+v -> %v %+v", now, cmd, cmd, verdict, after)
		look(step{cmd, rec, after, verdict, now})
		rec = after
		past.See(rec)
	}
}

func TestTokensNeverShrinkAndEveryNewHandTakesAGreaterOne(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, true, func(s step) {
			if s.before == nil || s.after == s.before {
				return
			}
			if s.after.Token < s.before.Token {
				t.Fatalf("token fell from %d to %d", s.before.Token, s.after.Token)
			}
			newHand := s.newLife() || s.verdict == lifecycle.Resolved || s.verdict == lifecycle.Deleted ||
				s.after.Attempt != s.before.Attempt
			if newHand != (s.after.Token > s.before.Token) {
				t.Fatalf("new hand: %v, but token %d after %d", newHand, s.after.Token, s.before.Token)
			}
		})
	})
}

func TestApplyIsDeterministicAndChangesNoRecordInPlace(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, true, func(s step) {
			kept := lifecycletest.Clone(s.before)
			again, verdict := lifecycle.Apply(s.before, s.cmd, s.now)
			if verdict != s.verdict || !reflect.DeepEqual(again, s.after) {
				t.Fatalf("the second time: got %v %+v, want %v %+v", verdict, again, s.verdict, s.after)
			}
			if !reflect.DeepEqual(kept, s.before) {
				t.Fatalf("the record was changed in place: %s", lifecycletest.Diff(kept, s.before))
			}
		})
	})
}

func TestAnEtagNamesOneVersionOfARecord(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		versions := map[string]*oncekeeper.KeyRecord{}
		randomLife(t, true, func(s step) {
			if s.after == nil {
				return
			}
			changed := s.after != s.before
			if known, seen := versions[s.after.Etag()]; changed && seen {
				t.Fatalf("etag %s names two versions: %s", s.after.Etag(), lifecycletest.Diff(known, s.after))
			}
			versions[s.after.Etag()] = s.after
		})
	})
}

func TestAnOutcomeChangesOnlyByDeletionAndExpiry(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, true, func(s step) {
			if s.before == nil || s.before.Outcome() == nil || s.newLife() || s.verdict == lifecycle.Deleted {
				return
			}
			if s.after != s.before {
				t.Fatalf("a settled record changed: %s", lifecycletest.Diff(s.before, s.after))
			}
		})
	})
}

func TestARunningOrHeldKeyIsNeverGone(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, false, func(s step) {
			if s.after == nil || s.after.State != oncekeeper.StoredPending {
				return
			}
			lastMoment := s.after.LeaseEnd - 1
			if s.after.Granted.Hold {
				lastMoment = 1<<63 - 1
			}
			if lifecycle.Gone(s.after, lastMoment) {
				t.Fatalf("gone at %d: %+v", lastMoment, s.after)
			}
		})
	})
}

func TestOnlyAGrantOrAWordOfItsHolderOrAnOperatorChangesARecord(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, true, func(s step) {
			if s.after == s.before {
				return
			}
			switch s.verdict {
			case lifecycle.Granted, lifecycle.Renewed, lifecycle.Settled, lifecycle.Resolved, lifecycle.Deleted:
			case lifecycle.Replayed:
				if s.after.Origin != oncekeeper.OriginExhausted {
					t.Fatalf("a replay changed the record: %s", lifecycletest.Diff(s.before, s.after))
				}
			case lifecycle.Unresolved:
				if !s.after.Granted.Hold {
					t.Fatalf("it is unresolved, and not held: %+v", s.after)
				}
			default:
				t.Fatalf("%v changed the record: %s", s.verdict, lifecycletest.Diff(s.before, s.after))
			}
		})
	})
}
