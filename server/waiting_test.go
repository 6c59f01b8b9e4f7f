package server

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

var (
	waitKey = oncekeeper.Key{Tenant: "t", Operation: "o", ID: "1"}
	ask     = lifecycle.Begin{Key: waitKey, CallID: "waiter", Grant: oncekeeper.Grant{Lease: time.Minute, Retention: time.Hour, UnsettledRetention: time.Hour}}
	moment  = oncekeeper.InstantOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
)

// held is the result of a grant to somebody else, with the token.
func held(token int64) storage.Result {
	rec, _ := lifecycle.Apply(nil, lifecycle.Begin{Key: waitKey, CallID: "holder", Grant: ask.Grant}, moment)
	next := *rec
	next.Token = token
	return storage.Result{Verdict: lifecycle.Granted, Record: &next, Now: moment}
}

// released is what becomes of such a grant that is settled as retryable.
func released(of storage.Result) storage.Result {
	rec, verdict := lifecycle.Apply(of.Record, lifecycle.Settle{
		Key: waitKey, Token: of.Record.Token, As: oncekeeper.SettledRetryable, Status: &oncekeeper.Status{Code: 2},
	}, moment)
	return storage.Result{Verdict: verdict, Record: rec, Now: moment}
}

func sleeper(q *waiting) *waiter {
	w := q.join(ask)
	q.sleep(w, storage.Result{Verdict: lifecycle.InProgress, Record: held(5).Record, Now: moment})
	return w
}

func woken(w *waiter) (wakeup, bool) {
	select {
	case up := <-w.wake:
		return up, true
	default:
		return wakeup{}, false
	}
}

func TestAResultThatComesLateWakesNobody(t *testing.T) {
	q := newWaiting(clock.NewManual(time.Unix(0, 0)), 10, 10)
	w := sleeper(q)
	q.publish(waitKey, held(7))
	q.publish(waitKey, released(held(5)))
	if up, ok := woken(w); ok {
		t.Fatalf("the release of an attempt that was followed by another woke a waiter with %+v", up)
	}
	q.publish(waitKey, released(held(7)))
	if up, ok := woken(w); !ok || up.answer != nil {
		t.Fatalf("the release of the last attempt gave %+v, %v; want the turn", up, ok)
	}
}

func TestTheTurnIsOnesAtATimeAndGoesOn(t *testing.T) {
	clk := clock.NewManual(time.Unix(0, 0))
	q := newWaiting(clk, 10, 10)
	waiters := []*waiter{sleeper(q), sleeper(q), sleeper(q)}
	q.publish(waitKey, released(held(5)))
	q.publish(waitKey, released(held(6)))
	clk.Advance(time.Hour) // no alarm adds a second turn
	for i, w := range waiters {
		if _, ok := woken(w); !ok {
			t.Fatalf("waiter %d has no turn after those before it left", i)
		}
		for _, other := range waiters[i+1:] {
			if _, ok := woken(other); ok {
				t.Fatal("two waiters have the turn at once")
			}
		}
		q.leave(w)
	}
	if len(q.keys) != 0 || q.all != 0 {
		t.Errorf("%d lines and %d waiters are left", len(q.keys), q.all)
	}
}

// TestWhatTimeAloneWouldMakeOfARecordIsTheStoresToSay: another server may have
// renewed the lease meanwhile.
func TestWhatTimeAloneWouldMakeOfARecordIsTheStoresToSay(t *testing.T) {
	clk := clock.NewManual(time.Unix(0, 0))
	q := newWaiting(clk, 10, 10)
	kept := held(5)
	rec := *kept.Record
	rec.Granted.Hold = true
	var waiters []*waiter
	for range 2 {
		w := q.join(ask)
		q.sleep(w, storage.Result{Verdict: lifecycle.InProgress, Record: &rec, Now: moment})
		waiters = append(waiters, w)
	}
	clk.Advance(time.Minute)
	if up := <-waiters[0].wake; up.answer != nil {
		t.Fatalf("at the lease's end the first was answered %v", up.answer.Verdict)
	}
	q.leave(waiters[0]) // the store did not answer it
	if up, ok := woken(waiters[1]); !ok || up.answer != nil {
		t.Fatalf("the second got %+v, %v; want the turn to ask", up, ok)
	}
	unresolved, verdict := lifecycle.Apply(&rec, ask, moment.Add(time.Minute))
	third := q.join(ask)
	q.sleep(third, storage.Result{Verdict: lifecycle.InProgress, Record: &rec, Now: moment})
	q.publish(waitKey, storage.Result{Verdict: verdict, Record: unresolved, Now: moment.Add(time.Minute)})
	if up, ok := woken(third); !ok || up.answer == nil || up.answer.Verdict != lifecycle.Unresolved {
		t.Fatalf("once the store said it, the third got %+v, %v; want unresolved", up, ok)
	}
}

// TestAStoreWhoseClockWentBackIsNotAskedInAHotLoop: a standby that is promoted may
// be behind, and then a lease is longer than this host thinks.
func TestAStoreWhoseClockWentBackIsNotAskedInAHotLoop(t *testing.T) {
	clk := clock.NewManual(time.Unix(0, 0))
	q := newWaiting(clk, 10, 10)
	w := sleeper(q)
	clk.Advance(time.Minute)
	<-w.wake // the lease is over by this host's clock
	busy := storage.Result{Verdict: lifecycle.InProgress, Record: held(5).Record, Now: moment.Add(-time.Minute)}
	q.publish(waitKey, busy)
	q.sleep(w, busy)
	if up, ok := woken(w); ok {
		t.Fatalf("the store said that the lease goes on, and the waiter got %+v at once", up)
	}
	clk.Advance(2 * time.Minute)
	if up := <-w.wake; up.answer != nil {
		t.Fatalf("at the lease's end the waiter was answered %v", up.answer.Verdict)
	}
}

func TestNobodySleepsOnceTheServerStops(t *testing.T) {
	q := newWaiting(clock.NewManual(time.Unix(0, 0)), 10, 10)
	w := q.join(ask)
	q.close()
	q.sleep(w, storage.Result{Verdict: lifecycle.InProgress, Record: held(5).Record, Now: moment})
	if up, ok := woken(w); !ok || !up.closing {
		t.Errorf("a waiter that goes to sleep after the stop got %+v, %v", up, ok)
	}
	if q.join(ask) != nil {
		t.Error("a waiter joined after the stop")
	}
}

func TestAKeyThatIsBusyForNoKnownReasonIsAskedForNowAndThen(t *testing.T) {
	clk := clock.NewManual(time.Unix(0, 0))
	q := newWaiting(clk, 10, 10)
	newer := held(5)
	rec := *newer.Record
	rec.State, rec.LeaseEnd = 99, moment
	w := q.join(ask)
	q.sleep(w, storage.Result{Verdict: lifecycle.InProgress, Record: &rec, Now: moment})
	clk.Advance(busyAlarm - 1)
	if _, ok := woken(w); ok {
		t.Fatal("it is asked for in a hot loop")
	}
	clk.Advance(1)
	select {
	case <-w.wake:
	case <-time.After(time.Minute):
		t.Fatal("it is never asked for again")
	}
}
