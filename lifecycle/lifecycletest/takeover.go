package lifecycletest

import (
	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var callIDs = []Scenario{
	{"a retried call is given its own live grant back, with the time left", func(l *Life) {
		asked := l.asks()
		l.play(lifecycle.Granted, asked)
		end := l.rec.LeaseEnd
		l.wait(lease / 2)
		l.unchanged(lifecycle.Granted, asked)
		expect(l, "lease end", l.rec.LeaseEnd, end)
	}},
	{"a retried call whose lease ran out has it started anew, and is fenced from nobody", func(l *Life) {
		asked := l.asks()
		token := l.play(lifecycle.Granted, asked).Token
		etag := l.rec.Etag()
		l.wait(2 * lease)
		l.play(lifecycle.Granted, asked)
		expect(l, "token", l.rec.Token, token)
		expect(l, "attempt", l.rec.Attempt, 1)
		expect(l, "takeover", l.rec.Takeover, false)
		expect(l, "lease end", l.rec.LeaseEnd, l.now.Add(lease))
		expect(l, "a new etag", l.rec.Etag() != etag, true)
		l.begin(lifecycle.InProgress)
		l.complete(token)
	}},
	{"a retried call whose lease ran out is granted although the key is held", func(l *Life) {
		asked := l.asks(hold)
		token := l.play(lifecycle.Granted, asked).Token
		l.wait(lease)
		l.begin(lifecycle.Unresolved)
		l.play(lifecycle.Granted, asked)
		expect(l, "token", l.rec.Token, token)
		l.begin(lifecycle.InProgress)
	}},
	{"a retried call whose lease ran out is granted although the attempts are used up", func(l *Life) {
		asked := l.asks(attempts(1))
		token := l.play(lifecycle.Granted, asked).Token
		l.wait(lease)
		l.play(lifecycle.Granted, asked)
		expect(l, "token", l.rec.Token, token)
		expect(l, "attempt", l.rec.Attempt, 1)
	}},
	{"a retried call whose attempt was released is over", func(l *Life) {
		asked := l.asks()
		l.settle(l.play(lifecycle.Granted, asked).Token, oncekeeper.SettledRetryable)
		l.unchanged(lifecycle.AlreadySettled, asked)
		l.granted(2)
	}},
	{"a retried call whose attempt ended as unknown is over, before and after its lease", func(l *Life) {
		asked := l.asks()
		l.settle(l.play(lifecycle.Granted, asked).Token, oncekeeper.SettledUnknown)
		l.unchanged(lifecycle.AlreadySettled, asked)
		l.wait(lease)
		l.unchanged(lifecycle.AlreadySettled, asked)
		l.granted(2)
	}},
	{"a retried call on a key that is held for good after a release is over", func(l *Life) {
		l.abandoned(attempts(2))
		asked := l.asks(attempts(2))
		l.settle(l.play(lifecycle.Granted, asked).Token, oncekeeper.SettledRetryable)
		l.begin(lifecycle.Unresolved)
		l.unchanged(lifecycle.AlreadySettled, asked)
	}},
	{"an empty call id is nobody's", func(l *Life) {
		l.granted(1, calling(""))
		l.unchanged(lifecycle.InProgress, l.asks(calling("")))
		l.wait(lease)
		second := l.granted(2, calling(""))
		l.settle(second, oncekeeper.SettledRetryable)
		l.granted(3, calling(""))
	}},
	{"only the last attempt's call id is remembered", func(l *Life) {
		asked := l.asks()
		l.play(lifecycle.Granted, asked)
		l.wait(lease)
		l.granted(2)
		l.unchanged(lifecycle.InProgress, asked)
		l.wait(lease)
		l.play(lifecycle.Granted, asked)
		expect(l, "attempt", l.rec.Attempt, 3)
	}},
	{"a retried call with another fingerprint is a mismatch first", func(l *Life) {
		asked := l.asks()
		l.play(lifecycle.Granted, asked)
		asked.Fingerprint = []byte("another")
		l.unchanged(lifecycle.Mismatch, asked)
	}},
}

var takingOver = []Scenario{
	{"who comes after a lease that ran out takes over with a greater token", func(l *Life) {
		first := l.abandoned()
		asked := l.asks(leased(2*lease), retained(2*retention), attempts(9))
		l.play(lifecycle.Granted, asked)
		expect(l, "greater token", l.rec.Token > first, true)
		expect(l, "attempt", l.rec.Attempt, 2)
		expect(l, "takeover", l.rec.Takeover, true)
		expect(l, "grant", l.rec.Granted, asked.Grant)
		expect(l, "holder", l.rec.Holder, asked.Holder)
		expect(l, "call id", l.rec.CallID, asked.CallID)
		expect(l, "lease end", l.rec.LeaseEnd, l.now.Add(2*lease))
	}},
	{"who comes after an unknown outcome takes over at once", func(l *Life) {
		first := l.granted(1)
		l.settle(first, oncekeeper.SettledUnknown)
		l.state(oncekeeper.StateAbandoned)
		second := l.granted(2)
		expect(l, "greater token", second > first, true)
		expect(l, "takeover", l.rec.Takeover, true)
		if l.rec.LastOutcome() != nil || l.rec.Last != oncekeeper.SettledNot {
			l.fail("what the first holder said, on the second's attempt", l.rec.LastOutcome(), nil)
		}
	}},
	{"an unknown outcome on a held key is unresolved at once", func(l *Life) {
		token := l.granted(1, hold)
		l.settle(token, oncekeeper.SettledUnknown)
		l.state(oncekeeper.StateUnresolved)
		l.unchanged(lifecycle.Unresolved, l.asks())
		expect(l, "what the holder said", l.rec.LastOutcome().Status.Message, "no funds")
	}},
	{"takeover stays set across a settlement as retryable", func(l *Life) {
		_, second := l.takenOver()
		l.settle(second, oncekeeper.SettledRetryable)
		expect(l, "takeover while released", l.rec.Takeover, true)
		third := l.granted(3)
		expect(l, "takeover", l.rec.Takeover, true)
		l.settle(third, oncekeeper.SettledRetryable)
		l.granted(4)
		expect(l, "takeover", l.rec.Takeover, true)
	}},
	{"who comes after a retryable settlement does not take over", func(l *Life) {
		first := l.released()
		second := l.granted(2)
		expect(l, "greater token", second > first, true)
		expect(l, "takeover", l.rec.Takeover, false)
	}},
	{"an unknown outcome that turns out retryable is no takeover", func(l *Life) {
		token := l.granted(1)
		l.settle(token, oncekeeper.SettledUnknown)
		l.settle(token, oncekeeper.SettledRetryable)
		l.granted(2)
		expect(l, "takeover", l.rec.Takeover, false)
	}},
	{"a late retryable settlement of a lapsed attempt frees the key with no takeover", func(l *Life) {
		token := l.abandoned()
		l.settle(token, oncekeeper.SettledRetryable)
		l.granted(2)
		expect(l, "takeover", l.rec.Takeover, false)
	}},
	{"a grant's lease is its own, though the last one's would have gone on for longer", func(l *Life) {
		l.released(leased(9 * lease))
		l.granted(2)
		expect(l, "lease end", l.rec.LeaseEnd, l.now.Add(lease))
		l.wait(lease)
		l.granted(3)
	}},
	{"tokens grow although the clock stands still", func(l *Life) {
		token := l.granted(1)
		for number := int32(2); number < 10; number++ {
			l.settle(token, oncekeeper.SettledRetryable)
			next := l.granted(number)
			expect(l, "greater token", next > token, true)
			token = next
		}
	}},
	{"a token is never behind the clock", func(l *Life) {
		l.granted(1)
		expect(l, "token at least now", l.rec.Token >= int64(l.now), true)
		l.wait(lease)
		l.granted(2)
		expect(l, "token at least now", l.rec.Token >= int64(l.now), true)
	}},
}

var givingUp = []Scenario{
	{"attempts used up with nothing standing end as failed with the last status", func(l *Life) {
		first := l.released(attempts(2))
		second := l.granted(2, attempts(2))
		last := failure(l.Key, second, oncekeeper.SettledRetryable)
		last.Status = &oncekeeper.Status{Code: 14, Message: "the second time"}
		l.play(lifecycle.Settled, last)
		etag := l.rec.Etag()
		l.wait(lease)
		l.begin(lifecycle.Replayed)
		l.state(oncekeeper.StateFailed)
		outcome := l.rec.Outcome()
		expect(l, "origin", outcome.Origin, oncekeeper.OriginExhausted)
		expect(l, "message", outcome.Status.Message, "the second time")
		expect(l, "settled", outcome.Settled, l.now)
		expect(l, "expiry", outcome.Expires, l.now.Add(retention))
		expect(l, "a new etag", l.rec.Etag() != etag, true)
		l.unchanged(lifecycle.Replayed, l.asks())
		l.unchanged(lifecycle.Fenced, completion(l.Key, first))
	}},
	{"the last holder may say again what it said before the attempts were used up", func(l *Life) {
		token := l.released(attempts(1))
		l.begin(lifecycle.Replayed)
		l.unchanged(lifecycle.Settled, failure(l.Key, token, oncekeeper.SettledRetryable))
		l.unchanged(lifecycle.AlreadySettled, failure(l.Key, token, oncekeeper.SettledFinal))
		l.unchanged(lifecycle.AlreadySettled, completion(l.Key, token))
	}},
	{"attempts used up by one that lapsed hold the key", func(l *Life) {
		l.abandoned(attempts(1))
		l.begin(lifecycle.Unresolved)
		l.state(oncekeeper.StateUnresolved)
		expect(l, "expiry", l.rec.Expires, 0)
		l.wait(2 * unsettled)
		l.unchanged(lifecycle.Unresolved, l.asks())
	}},
	{"attempts used up by an unknown outcome hold the key", func(l *Life) {
		l.settle(l.granted(1, attempts(1)), oncekeeper.SettledUnknown)
		l.begin(lifecycle.Unresolved)
		l.wait(2 * unsettled)
		l.unchanged(lifecycle.Unresolved, l.asks())
	}},
	{"attempts used up hold a released key where an earlier effect may stand", func(l *Life) {
		_, second := l.takenOver(attempts(2))
		l.settle(second, oncekeeper.SettledRetryable)
		l.begin(lifecycle.Unresolved)
		l.state(oncekeeper.StateUnresolved)
		expect(l, "token", l.rec.Token, second)
		expect(l, "its lease is over", l.rec.LeaseEnd <= l.now, true)
		l.unchanged(lifecycle.Settled, failure(l.Key, second, oncekeeper.SettledRetryable))
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Renew{Key: l.Key, Token: second})
		l.unchanged(lifecycle.AlreadySettled, failure(l.Key, second, oncekeeper.SettledUnknown))
		other := failure(l.Key, second, oncekeeper.SettledRetryable)
		other.Status = &oncekeeper.Status{Code: 14, Message: "otherwise"}
		l.unchanged(lifecycle.AlreadySettled, other)
		l.wait(2 * unsettled)
		l.unchanged(lifecycle.Unresolved, l.asks())
	}},
	{"who can prove what happened ends a key held after a release, by the token it was told", func(l *Life) {
		_, second := l.takenOver(attempts(2))
		l.settle(second, oncekeeper.SettledRetryable)
		l.begin(lifecycle.Unresolved)
		l.complete(l.rec.Token)
		l.unchanged(lifecycle.Replayed, l.asks())
	}},
	{"who can prove that nothing happened, and nothing will, ends it too", func(l *Life) {
		_, second := l.takenOver(attempts(2))
		l.settle(second, oncekeeper.SettledRetryable)
		l.begin(lifecycle.Unresolved)
		l.settle(l.rec.Token, oncekeeper.SettledFinal)
		l.unchanged(lifecycle.Replayed, l.asks())
	}},
	{"a holder that was given up and held may still say what happened", func(l *Life) {
		token := l.abandoned(attempts(1))
		l.begin(lifecycle.Unresolved)
		l.complete(token)
		l.unchanged(lifecycle.Replayed, l.asks())
	}},
	{"the attempts of the grant count, not those of whoever comes next", func(l *Life) {
		l.released(attempts(1))
		l.begin(lifecycle.Replayed, attempts(0))
	}},
	{"a limit asked for only by the next caller counts from its own grant", func(l *Life) {
		l.released()
		l.granted(2, attempts(1))
		l.settle(l.rec.Token, oncekeeper.SettledRetryable)
		l.begin(lifecycle.Replayed)
	}},
	{"no limit is no limit", func(l *Life) {
		for number := int32(1); number < 20; number++ {
			token := l.granted(number, attempts(0))
			l.settle(token, oncekeeper.SettledRetryable)
		}
	}},
}
