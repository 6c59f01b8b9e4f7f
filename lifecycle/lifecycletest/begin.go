package lifecycletest

import (
	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var beginning = []Scenario{
	{"a first begin is granted what it asks for", func(l *Life) {
		asked := l.asks(hold, attempts(3), traced(firstTrace))
		rec := l.play(lifecycle.Granted, asked)
		if difference := Diff(&oncekeeper.KeyRecord{
			Key: l.Key, State: oncekeeper.StoredPending, Token: int64(l.now), Revision: 1,
			Fingerprint: asked.Fingerprint, FingerprintScheme: asked.FingerprintScheme,
			CallID: asked.CallID, Attempt: 1, Granted: asked.Grant, Holder: asked.Holder, Principal: asked.Principal, TraceParent: asked.TraceParent,
			Created: l.now, LeaseEnd: l.now.Add(lease), UnsettledUntil: l.now.Add(lease).Add(unsettled),
		}, rec); difference != "" {
			l.fail("granted record", difference, "none")
		}
	}},
	{"a lease is live until its end, and over from then on", func(l *Life) {
		l.granted(1)
		l.wait(lease - l.Moment)
		l.unchanged(lifecycle.InProgress, l.asks())
		l.state(oncekeeper.StatePending)
		l.wait(l.Moment)
		l.granted(2)
	}},
	{"a completed key replays its response, whoever asks and however often", func(l *Life) {
		asked := l.asks()
		token := l.play(lifecycle.Granted, asked).Token
		l.complete(token)
		for _, again := range []lifecycle.Begin{asked, l.asks(), l.asks(calling("")), l.asks(attempts(1), hold)} {
			l.unchanged(lifecycle.Replayed, again)
		}
		l.state(oncekeeper.StateCompleted)
		outcome := l.rec.Outcome()
		expect(l, "body", string(outcome.Response.Body), "paid")
		expect(l, "origin", outcome.Origin, oncekeeper.OriginAttempt)
		expect(l, "token of the outcome", outcome.Token, token)
	}},
	{"a failed key replays its status", func(l *Life) {
		asked := l.asks()
		token := l.play(lifecycle.Granted, asked).Token
		l.settle(token, oncekeeper.SettledFinal)
		l.unchanged(lifecycle.Replayed, asked)
		l.unchanged(lifecycle.Replayed, l.asks())
		l.state(oncekeeper.StateFailed)
		expect(l, "message", l.rec.Outcome().Status.Message, "no funds")
	}},
	{"a held key stays unresolved, however long nobody settles it", func(l *Life) {
		l.granted(1, hold)
		l.wait(lease)
		l.unchanged(lifecycle.Unresolved, l.asks())
		l.wait(100 * unsettled)
		l.unchanged(lifecycle.Unresolved, l.asks())
		l.state(oncekeeper.StateUnresolved)
	}},
	{"a hold asked for only by the next caller does not hold the key from it", func(l *Life) {
		l.abandoned()
		l.granted(2, hold)
		l.wait(lease)
		l.begin(lifecycle.Unresolved)
	}},
}

// mismatching begins with another fingerprint after each way to come to a state.
func mismatching() []Scenario {
	var all []Scenario
	for _, way := range []struct {
		state string
		come  func(l *Life)
	}{
		{"pending", func(l *Life) { l.granted(1) }},
		{"abandoned", func(l *Life) { l.abandoned() }},
		{"unresolved", func(l *Life) { l.abandoned(hold) }},
		{"unknown", func(l *Life) { l.settle(l.granted(1), oncekeeper.SettledUnknown) }},
		{"released", func(l *Life) { l.released() }},
		{"used up", func(l *Life) { l.released(attempts(1)) }},
		{"exhausted", func(l *Life) { l.released(attempts(1)); l.begin(lifecycle.Replayed) }},
		{"given up and held", func(l *Life) { l.abandoned(attempts(1)); l.begin(lifecycle.Unresolved) }},
		{"released by an operator", func(l *Life) { l.abandoned(); l.release() }},
		{"completed", func(l *Life) { l.complete(l.granted(1)) }},
		{"failed", func(l *Life) { l.settle(l.granted(1), oncekeeper.SettledFinal) }},
	} {
		all = append(all, Scenario{"another fingerprint is a mismatch when " + way.state, func(l *Life) {
			way.come(l)
			l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "another")))
			l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "")))
			l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "another"), calling(l.rec.CallID)))
		}})
	}
	return all
}

var fingerprinting = []Scenario{
	{"a fingerprint of another scheme is not compared, and the first one stays", func(l *Life) {
		l.granted(1)
		l.unchanged(lifecycle.InProgress, l.asks(sending("jcs1", "another")))
		l.wait(lease)
		l.granted(2, sending("jcs1", "another"))
		expect(l, "scheme", l.rec.FingerprintScheme, "raw")
		expect(l, "fingerprint", string(l.rec.Fingerprint), "digest")
		l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "another")))
		l.complete(l.rec.Token)
		l.unchanged(lifecycle.Replayed, l.asks(sending("jcs1", "a third")))
	}},
	{"an empty scheme is one like any other", func(l *Life) {
		l.granted(1, sending("", "digest"))
		l.unchanged(lifecycle.Mismatch, l.asks(sending("", "another")))
		l.unchanged(lifecycle.InProgress, l.asks(sending("", "digest")))
		l.unchanged(lifecycle.InProgress, l.asks(sending("raw", "another")))
	}},
	{"an empty fingerprint is a value, which another does not fit", func(l *Life) {
		l.granted(1, sending("raw", ""))
		l.unchanged(lifecycle.InProgress, l.asks(sending("raw", "")))
		l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "digest")))
	}},
	{"a fingerprint that another one begins with is another", func(l *Life) {
		l.granted(1)
		l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "diges")))
		l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "digest\x00")))
	}},
}
