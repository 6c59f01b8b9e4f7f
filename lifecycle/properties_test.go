package lifecycle_test

import (
	"reflect"
	"slices"
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
				s.after.Attempt > s.before.Attempt
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

func TestWhatAKeyWentThroughIsBoundedAndOnlyGrowsAtItsEnd(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, true, func(s step) {
			if s.after == nil {
				return
			}
			if n := len(s.after.History); n > oncekeeper.MaxHistory {
				t.Fatalf("%d entries are kept, at most %d may be", n, oncekeeper.MaxHistory)
			}
			told := lifecycle.History(s.after, s.now)
			for i := 1; i < len(told); i++ {
				if told[i].Token <= told[i-1].Token {
					t.Fatalf("token %d comes after %d: %+v", told[i].Token, told[i-1].Token, told)
				}
			}
			for _, entry := range s.after.History {
				if !entry.Event.Known() || entry.Event == oncekeeper.EventRunning || entry.Ended == 0 {
					t.Fatalf("an entry of what is over is %+v", entry)
				}
			}
			if n := len(told); n == 0 || told[n-1].Token != s.after.Token {
				t.Fatalf("the history does not end with the record's token %d: %+v", s.after.Token, told)
			}
		})
	})
}

func TestOnlyWhoeverTakesOrEndsAKeyWritesItsHistory(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		randomLife(t, true, func(s step) {
			if s.before == nil || s.after == s.before {
				return
			}
			same := reflect.DeepEqual(s.before.History, s.after.History)
			switch {
			case s.newLife():
				if len(s.after.History) != 0 {
					t.Fatalf("a new life begins with the history %+v", s.after.History)
				}
			case s.after.Token != s.before.Token || s.verdict == lifecycle.Replayed:
				told := lifecycle.History(s.before, s.now)
				if kept := s.after.History; len(told) > 0 && !containsToken(kept, told[len(told)-1].Token) {
					t.Fatalf("%+v was followed, and is not in %+v", told[len(told)-1], kept)
				}
			case !same:
				t.Fatalf("%v wrote history: %+v after %+v", s.verdict, s.after.History, s.before.History)
			}
		})
	})
}

func containsToken(history []oncekeeper.HistoryEntry, token int64) bool {
	return slices.ContainsFunc(history, func(e oncekeeper.HistoryEntry) bool { return e.Token == token })
}

func TestOnlyAttemptsThatWereNotRunAreNotCounted(t *testing.T) {
	lifecycletest.Check(t, 2000, func(t *rapid.T) {
		var ran int32 // by the answers: grants, but those that were given back
		randomLife(t, true, func(s step) {
			if s.after == s.before {
				return
			}
			settle, _ := s.cmd.(lifecycle.Settle)
			switch {
			case s.newLife():
				ran = 1
			case s.verdict == lifecycle.Granted && s.after.Token != s.before.Token:
				ran++
			case s.verdict == lifecycle.Settled && settle.NotRun:
				ran--
			case s.verdict == lifecycle.Resolved && s.after.State == oncekeeper.StoredReleased, s.verdict == lifecycle.Deleted:
				ran = 0
			}
			if s.after.Attempt != ran {
				t.Fatalf("%d attempts are counted, %d ran: %+v", s.after.Attempt, ran, s.after)
			}
			if exhausted := s.after.Origin == oncekeeper.OriginExhausted; exhausted && s.after.Attempt < s.after.Granted.MaxAttempts {
				t.Fatalf("given up after %d attempts of %d", s.after.Attempt, s.after.Granted.MaxAttempts)
			}
		})
	})
}
