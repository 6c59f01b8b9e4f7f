package lifecycletest

import (
	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// givingBack is of attempts whose function was not called.
var givingBack = []Scenario{
	{"an attempt that was not run is not counted, however often", func(l *Life) {
		for range 5 {
			l.giveBack(l.granted(1, attempts(1)))
			l.state(oncekeeper.StateReleased)
			expect(l, "attempts", l.rec.Attempt, 0)
			expect(l, "number of the last outcome", l.rec.LastOutcome().Attempt, 1)
		}
		l.settle(l.granted(1, attempts(1)), oncekeeper.SettledRetryable)
		l.begin(lifecycle.Replayed)
	}},
	{"attempts that ran are counted, those between them that did not are not", func(l *Life) {
		l.settle(l.granted(1, attempts(3)), oncekeeper.SettledRetryable)
		l.giveBack(l.granted(2, attempts(3)))
		l.giveBack(l.granted(2, attempts(3)))
		l.settle(l.granted(2, attempts(3)), oncekeeper.SettledRetryable)
		l.giveBack(l.granted(3, attempts(3)))
		l.settle(l.granted(3, attempts(3)), oncekeeper.SettledRetryable)
		l.begin(lifecycle.Replayed)
		expect(l, "origin", l.rec.Outcome().Origin, oncekeeper.OriginExhausted)
		expect(l, "number of the outcome", l.rec.Outcome().Attempt, 3)
	}},
	{"a takeover that was not run leaves the next one a takeover", func(l *Life) {
		l.takenOver(attempts(2))
		l.giveBack(l.rec.Token)
		expect(l, "takeover", l.rec.Takeover, true)
		l.granted(2, attempts(2))
		expect(l, "takeover", l.rec.Takeover, true)
		l.wait(lease)
		l.begin(lifecycle.Unresolved)
	}},
	{"an attempt that was not run may be made again, though its grant asked for fewer", func(l *Life) {
		l.released()
		l.settle(l.granted(2), oncekeeper.SettledRetryable)
		l.giveBack(l.granted(3, attempts(2)))
		l.granted(3, attempts(2))
	}},
	{"giving back again is no error, and is another word than that it did nothing", func(l *Life) {
		token := l.granted(1)
		l.giveBack(token)
		l.unchanged(lifecycle.Settled, notRun(l.Key, token))
		l.unchanged(lifecycle.AlreadySettled, failure(l.Key, token, oncekeeper.SettledRetryable))
		next := l.granted(1)
		l.unchanged(lifecycle.Fenced, notRun(l.Key, token))
		l.settle(next, oncekeeper.SettledRetryable)
		l.unchanged(lifecycle.AlreadySettled, notRun(l.Key, next))
		expect(l, "attempts", l.rec.Attempt, 1)
	}},
	{"a call whose grant was given back is over", func(l *Life) {
		asked := l.asks()
		l.giveBack(l.play(lifecycle.Granted, asked).Token)
		l.unchanged(lifecycle.AlreadySettled, asked)
		l.granted(1)
	}},
	{"what was unknown may turn out not to have been run", func(l *Life) {
		token := l.granted(1, hold)
		l.settle(token, oncekeeper.SettledUnknown)
		l.giveBack(token)
		l.granted(1, hold)
		expect(l, "takeover", l.rec.Takeover, false)
	}},
	{"an attempt that was not run is told as such, the last of many alone", func(l *Life) {
		first := l.released()
		released := oncekeeper.HistoryEntry{
			Token: first, Event: oncekeeper.EventReleased, Attempt: 1, Holder: "holder-1", Ended: l.rec.Settled, Code: 9, Message: "no funds",
		}
		var unrun oncekeeper.HistoryEntry
		for range oncekeeper.MaxHistory + 1 {
			token := l.granted(2)
			l.giveBack(token)
			unrun = oncekeeper.HistoryEntry{
				Token: token, Event: oncekeeper.EventNotRun, Attempt: 2, Holder: l.rec.Holder, Ended: l.rec.Settled, Code: 9, Message: "no funds",
			}
			l.told(released, unrun)
		}
		last := l.granted(2)
		l.stored(released, unrun)
		l.told(released, unrun, oncekeeper.HistoryEntry{Token: last, Event: oncekeeper.EventRunning, Attempt: 2, Holder: l.rec.Holder})
	}},
	{"an operator's word on what was given back starts the attempts again", func(l *Life) {
		l.giveBack(l.granted(1))
		l.release()
		expect(l, "attempts", l.rec.Attempt, 0)
		expect(l, "number of the last attempt", l.rec.LastAttempt(), 0)
		l.granted(1)
		l.giveBack(l.rec.Token)
		l.forget(false)
		expect(l, "number of the last attempt", l.rec.LastAttempt(), 0)
		l.granted(1)
	}},
}

func notRun(key oncekeeper.Key, token int64) lifecycle.Settle {
	c := failure(key, token, oncekeeper.SettledRetryable)
	c.NotRun = true
	return c
}

func (l *Life) giveBack(token int64) {
	l.T.Helper()
	l.play(lifecycle.Settled, notRun(l.Key, token))
}
