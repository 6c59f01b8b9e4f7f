package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

const lease = 100 * time.Millisecond

var key = oncekeeper.Key{Tenant: "t", Operation: "o", ID: "k"}

// life is a key whose commands are applied one after the other, a millisecond apart
// unless it is told otherwise, and answered as servers do.
type life struct {
	rec  *oncekeeper.KeyRecord
	now  oncekeeper.Instant
	call int64
	ops  []*history.Operation
}

func newLife() *life { return &life{now: 1_000_000_000} }

func (l *life) add(o *history.Operation, lost bool) *history.Operation {
	o.ID, o.Key = len(l.ops), key.ID
	l.call += 10
	o.Call, o.Return = l.call, l.call+5
	o.Earliest, o.Latest = l.now-300, l.now+300
	cmd := o.Command()
	if cmd == nil {
		o.Answer = &history.Answer{Verdict: lifecycle.NotFound}
		if l.rec != nil && !lifecycle.Gone(l.rec, l.now) {
			o.Answer = &history.Answer{Record: history.ViewOf(l.rec, lifecycle.StateAt(l.rec, l.now))}
		}
	} else {
		next, verdict := lifecycle.Apply(l.rec, cmd, l.now)
		l.rec = next
		o.Answer = answer(next, verdict, l.now)
	}
	if lost {
		o.Answer, o.Return, o.Latest = nil, history.Open, o.Latest.Add(time.Hour)
	}
	l.ops = append(l.ops, o)
	l.now += 1000
	return o
}

func answer(rec *oncekeeper.KeyRecord, verdict lifecycle.Verdict, now oncekeeper.Instant) *history.Answer {
	a := &history.Answer{Verdict: verdict}
	switch verdict {
	case lifecycle.Granted:
		a.Token, a.Attempt, a.Takeover, a.Checkpoint = rec.Token, rec.Attempt, rec.Takeover, rec.Checkpoint
		a.LeaseEnd, a.Lease = rec.LeaseEnd, rec.LeaseEnd.Sub(now)
	case lifecycle.Replayed:
		a.Outcome = rec.Outcome()
	case lifecycle.InProgress:
		a.LeaseEnd, a.Attempt = rec.LeaseEnd, rec.Attempt
	case lifecycle.Unresolved:
		a.Token, a.Attempt, a.Since, a.Checkpoint = rec.Token, rec.Attempt, lifecycle.UnknownSince(rec), rec.Checkpoint
	case lifecycle.Renewed:
		a.LeaseEnd, a.Lease = rec.LeaseEnd, rec.LeaseEnd.Sub(now)
	case lifecycle.Settled:
		a.Expires = rec.Expires
	case lifecycle.Resolved:
		a.Record = history.ViewOf(rec, lifecycle.StateAt(rec, now))
	}
	return a
}

func begins(call string) *history.Operation {
	return &history.Operation{Begin: &lifecycle.Begin{
		Key: key, Fingerprint: []byte("request"), CallID: call, Grant: policy.Default().Grant(policy.Ask{Lease: lease, Retention: lease}),
	}}
}

func settles(token int64, as oncekeeper.Settlement, text string) *history.Operation {
	s := &lifecycle.Settle{Key: key, Token: token, As: as}
	if s.Response = (&oncekeeper.Response{Body: []byte(text)}); as != oncekeeper.SettledComplete {
		s.Response, s.Status = nil, &oncekeeper.Status{Code: 9, Message: text}
	}
	return &history.Operation{Settle: s}
}

func expect(t *testing.T, l *life, want Result) {
	t.Helper()
	if c := Check(l.ops, time.Minute); c.Result != want {
		t.Errorf("it is %s, want %s:\n%s", c.Result, want, c.Why())
	}
}

// lived gives a life of random commands, of which one in so many has no answer.
func lived(seed uint64, lostOf int) *life {
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLife()
	var begun []string
	for i := range 60 {
		var o *history.Operation
		token := int64(1)
		etag := "1-1"
		if l.rec != nil {
			token, etag = l.rec.Token, l.rec.Etag()
		}
		if random.IntN(8) == 0 {
			token--
		}
		switch random.IntN(9) {
		case 0, 1, 2:
			call := fmt.Sprint("call-", i)
			if len(begun) > 0 && random.IntN(4) == 0 {
				call = begun[random.IntN(len(begun))]
			}
			begun = append(begun, call)
			o = begins(call)
			o.Begin.Grant.Hold = random.IntN(4) == 0
			o.Begin.Grant.MaxAttempts = int32(random.IntN(4))
		case 3:
			o = &history.Operation{Renew: &lifecycle.Renew{Key: key, Token: token, Checkpoint: []byte(fmt.Sprint(i))}}
		case 4, 5, 6:
			o = settles(token, oncekeeper.Settlement(1+random.IntN(4)), fmt.Sprint(i))
		case 7:
			o = &history.Operation{Get: true}
		default:
			if o = (&history.Operation{Resolve: &lifecycle.Resolve{Key: key, Etag: etag, Force: true}}); random.IntN(2) == 0 {
				o = &history.Operation{Delete: &lifecycle.Delete{Key: key, Etag: etag, Force: true}}
			}
		}
		if random.IntN(6) == 0 {
			l.now = l.now.Add(2 * lease / 3)
		}
		if random.IntN(6) == 0 {
			l.now -= 1000 // of one moment with the last
		}
		l.add(o, lostOf > 0 && random.IntN(lostOf) == 0)
	}
	return l
}

func TestWhatTheRulesAnsweredIsLinearizable(t *testing.T) {
	for seed := range uint64(200) {
		for _, lostOf := range []int{0, 6} {
			if c := Check(lived(seed, lostOf).ops, time.Minute); c.Result != Linearizable {
				t.Fatalf("seed %d, one of %d lost: %s:\n%s", seed, lostOf, c.Result, c.Why())
			}
		}
	}
}

func TestAnAnswerThatTheRulesWouldNotGiveIsFound(t *testing.T) {
	for name, spoil := range map[string]func(a *history.Answer) bool{
		"another token":      func(a *history.Answer) bool { a.Token++; return a.Verdict == lifecycle.Granted },
		"a longer lease":     func(a *history.Answer) bool { a.LeaseEnd += 10_000; return a.LeaseEnd > 10_000 },
		"another attempt":    func(a *history.Answer) bool { a.Attempt++; return a.Attempt > 1 },
		"no takeover":        func(a *history.Answer) bool { was := a.Takeover; a.Takeover = false; return was },
		"another settlement": func(a *history.Answer) bool { a.Verdict = lifecycle.Settled; return a.Outcome != nil },
		"another outcome": func(a *history.Answer) bool {
			if a.Outcome == nil {
				return false
			}
			o := *a.Outcome
			o.Response, o.Status, a.Outcome = nil, &oncekeeper.Status{Code: 5}, &o
			return true
		},
		"a longer retention": func(a *history.Answer) bool {
			a.Expires += 10_000
			return a.Expires > 10_000 && a.Verdict == lifecycle.Settled
		},
		"fenced for settled": func(a *history.Answer) bool {
			was := a.Verdict
			a.Verdict = lifecycle.Fenced
			return was == lifecycle.Settled
		},
		"nothing for something": func(a *history.Answer) bool {
			had := a.Record != nil && a.Verdict == 0
			a.Record, a.Verdict = nil, lifecycle.NotFound
			return had
		},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt, found := 0, 0
			for seed := range uint64(20) {
				l := lived(seed, 0)
				for _, o := range l.ops {
					honest := *o.Answer
					if spoil(o.Answer) {
						spoilt++
						if Check(l.ops, time.Minute).Result == Illegal {
							found++
						}
					}
					*o.Answer = honest
				}
			}
			if spoilt == 0 || found < spoilt {
				t.Errorf("%d of %d are found", found, spoilt)
			}
		})
	}
}

func TestALostCommandHappenedLateOrNever(t *testing.T) {
	for name, applied := range map[string]bool{"late": true, "never": false} {
		t.Run(name, func(t *testing.T) {
			l := newLife()
			token := l.add(begins("a"), false).Answer.Token
			complete := settles(token, oncekeeper.SettledComplete, "paid")
			complete.Call, complete.Return, complete.ID, complete.Key = l.call+1, history.Open, 99, key.ID
			complete.Earliest, complete.Latest = l.now, l.now.Add(time.Hour)
			l.add(begins("b"), false)
			if applied {
				l.rec, _ = lifecycle.Apply(l.rec, complete.Command(), l.now)
			}
			l.add(begins("c"), false)
			l.ops = append(l.ops, complete)
			expect(t, l, Linearizable)
			if l.ops = l.ops[:3]; applied {
				expect(t, l, Illegal) // without it
			}
		})
	}
}

// A deletion tells nothing of its moment, and what it leaves is gone some time after
// it: here it was not yet, so that the next grant goes on with the same life.
func TestADeletionMayHaveBeenJustBeforeTheNextGrant(t *testing.T) {
	l := newLife()
	l.add(begins("a"), false)
	l.now += 250_000
	wide := func(o *history.Operation) { o.Earliest, o.Latest = o.Earliest-200_000, o.Latest+200_000 }
	wide(l.add(&history.Operation{Delete: &lifecycle.Delete{Key: key, Etag: l.rec.Etag(), Force: true}}, false))
	l.now = l.now.Add(lease * 9 / 10)
	l.add(begins("b"), false)
	l.add(&history.Operation{Get: true}, false)
	expect(t, l, Linearizable)
}

// A settlement that was lost, whose record was seen to be settled and then to be gone:
// neither look tells its moment.
func TestALostSettlementMayHaveExpiredBetweenTwoLooks(t *testing.T) {
	l := newLife()
	token := l.add(begins("a"), false).Answer.Token
	l.now += 40_000
	l.add(settles(token, oncekeeper.SettledFinal, "lost"), true).Earliest -= 40_000
	l.now = l.now.Add(lease * 9 / 10)
	l.add(settles(token, oncekeeper.SettledFinal, "late"), false)
	l.now = l.now.Add(lease / 5)
	l.add(settles(token, oncekeeper.SettledFinal, "too late"), false)
	if settled, gone := l.ops[2].Answer.Verdict, l.ops[3].Answer.Verdict; settled != lifecycle.AlreadySettled || gone != lifecycle.NotFound {
		t.Fatalf("the looks are told %v and %v", settled, gone)
	}
	expect(t, l, Linearizable)
}

// Renewals that were lost changed the record all the same, each before one that was
// for longer: what is told of them is the revision alone.
func TestLostRenewalsMayHaveBeenJustBeforeOneThatIsTold(t *testing.T) {
	l := newLife()
	token := l.add(begins("a"), false).Answer.Token
	renew := func() *history.Operation {
		return &history.Operation{Renew: &lifecycle.Renew{Key: key, Token: token, Lease: lease}}
	}
	for range 2 {
		l.add(renew(), true).Earliest -= 100_000
	}
	l.add(renew(), false)
	l.add(&history.Operation{Get: true}, false)
	expect(t, l, Linearizable)
	l.ops[4].Answer.Record.Etag = fmt.Sprintf("%d-%d", token, l.rec.Revision+1)
	expect(t, l, Illegal) // more than there were
}

func TestALookBehindAnotherCannotBeOfBefore(t *testing.T) {
	l := newLife()
	early := l.add(&history.Operation{Get: true}, false)
	l.add(begins("a"), false)
	late := l.add(&history.Operation{Get: true}, false)
	expect(t, l, Linearizable)
	early.Answer, late.Answer = late.Answer, early.Answer
	expect(t, l, Illegal)
}
