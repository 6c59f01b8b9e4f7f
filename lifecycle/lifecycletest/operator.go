package lifecycletest

import (
	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var resolving = []Scenario{
	{"an operator completes an unresolved key, which is replayed from then on", func(l *Life) {
		token := l.abandoned(hold)
		l.begin(lifecycle.Unresolved)
		l.play(lifecycle.Resolved, lifecycle.Resolve{
			Key: l.Key, Etag: l.rec.Etag(), Response: &oncekeeper.Response{Body: []byte("by hand")},
		})
		expect(l, "greater token", l.rec.Token > token, true)
		l.unchanged(lifecycle.Replayed, l.asks())
		outcome := l.rec.Outcome()
		expect(l, "body", string(outcome.Response.Body), "by hand")
		expect(l, "origin", outcome.Origin, oncekeeper.OriginOperator)
		expect(l, "expiry", outcome.Expires, outcome.Settled.Add(retention))
		l.unchanged(lifecycle.Fenced, completion(l.Key, token))
	}},
	{"an operator fails an abandoned key", func(l *Life) {
		l.abandoned()
		l.begin(lifecycle.Granted)
		l.wait(lease)
		l.play(lifecycle.Resolved, lifecycle.Resolve{
			Key: l.Key, Etag: l.rec.Etag(), Status: &oncekeeper.Status{Code: 9, Message: "given up"},
		})
		l.unchanged(lifecycle.Replayed, l.asks())
		expect(l, "message", l.rec.Outcome().Status.Message, "given up")
		expect(l, "origin", l.rec.Outcome().Origin, oncekeeper.OriginOperator)
	}},
	{"a release starts the attempts again and clears takeover", func(l *Life) {
		_, second := l.takenOver(attempts(2))
		l.wait(lease)
		l.begin(lifecycle.Unresolved)
		l.release()
		l.state(oncekeeper.StateReleased)
		expect(l, "greater token", l.rec.Token > second, true)
		expect(l, "attempts", l.rec.Attempt, 0)
		expect(l, "takeover", l.rec.Takeover, false)
		released := l.rec.Token
		third := l.granted(1, attempts(2))
		expect(l, "greater token", third > released, true)
		expect(l, "takeover", l.rec.Takeover, false)
		l.unchanged(lifecycle.Fenced, completion(l.Key, second))
	}},
	{"a release keeps the call id, so that the retry of a call that ran is no new call", func(l *Life) {
		asked := l.asks()
		l.play(lifecycle.Granted, asked)
		l.wait(lease)
		l.release()
		l.unchanged(lifecycle.AlreadySettled, asked)
	}},
	{"a release ends for how long the unknown outcome was to be remembered", func(l *Life) {
		l.abandoned()
		l.release()
		l.granted(1, remembered(retention))
		expect(l, "unsettled until", l.rec.UnsettledUntil, l.now.Add(lease).Add(retention))
	}},
	{"a release keeps the fingerprint", func(l *Life) {
		l.abandoned()
		l.release()
		l.unchanged(lifecycle.Mismatch, l.asks(sending("raw", "another")))
	}},
	{"an operator's word is not what the last holder said", func(l *Life) {
		token := l.granted(1)
		l.settle(token, oncekeeper.SettledRetryable)
		l.release()
		l.unchanged(lifecycle.Fenced, failure(l.Key, token, oncekeeper.SettledRetryable))
		l.unchanged(lifecycle.AlreadySettled, failure(l.Key, l.rec.Token, oncekeeper.SettledRetryable))
	}},
	{"an operator touches a running attempt only by force", func(l *Life) {
		token := l.granted(1)
		l.unchanged(lifecycle.Live, lifecycle.Resolve{Key: l.Key, Etag: l.rec.Etag()})
		l.unchanged(lifecycle.Live, lifecycle.Delete{Key: l.Key, Etag: l.rec.Etag()})
		l.play(lifecycle.Resolved, lifecycle.Resolve{Key: l.Key, Etag: l.rec.Etag(), Force: true})
		l.unchanged(lifecycle.Fenced, completion(l.Key, token))
		l.unchanged(lifecycle.Fenced, lifecycle.Renew{Key: l.Key, Token: token})
		l.granted(1)
	}},
	{"an operator who read an older version is refused, forcing or not", func(l *Life) {
		token := l.granted(1)
		etag := l.rec.Etag()
		l.renew(token, 2*lease)
		for _, force := range []bool{false, true} {
			l.unchanged(lifecycle.EtagMismatch, lifecycle.Resolve{Key: l.Key, Etag: etag, Force: force})
			l.unchanged(lifecycle.EtagMismatch, lifecycle.Delete{Key: l.Key, Etag: etag, Force: force})
			l.unchanged(lifecycle.EtagMismatch, lifecycle.Delete{Key: l.Key, Force: force})
		}
	}},
	{"an outcome is not resolved to another, force or not, whatever the etag", func(l *Life) {
		l.complete(l.granted(1))
		for _, etag := range []string{l.rec.Etag(), "stale"} {
			for _, force := range []bool{false, true} {
				l.unchanged(lifecycle.AlreadySettled, lifecycle.Resolve{Key: l.Key, Etag: etag, Force: force})
			}
		}
	}},
	{"an exhausted key is an outcome, which is not resolved", func(l *Life) {
		l.released(attempts(1))
		l.begin(lifecycle.Replayed)
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Resolve{Key: l.Key, Etag: l.rec.Etag(), Force: true})
	}},
	{"no record is refused before anything else", func(l *Life) {
		l.play(lifecycle.NotFound, lifecycle.Resolve{Key: l.Key, Etag: "stale"})
		l.play(lifecycle.NotFound, lifecycle.Delete{Key: l.Key, Etag: "stale", Force: true})
	}},
}

var deleting = []Scenario{
	{"an outcome is deleted only by force", func(l *Life) {
		l.complete(l.granted(1))
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Delete{Key: l.Key, Etag: l.rec.Etag()})
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Delete{Key: l.Key, Etag: "stale"})
		l.unchanged(lifecycle.EtagMismatch, lifecycle.Delete{Key: l.Key, Etag: "stale", Force: true})
		l.forget(true)
		l.granted(1)
	}},
	{"a deletion leaves a token to fence the last life, what the key went through, and nothing else", func(l *Life) {
		token := l.granted(1, attempts(1))
		created := l.rec.Created
		l.play(lifecycle.Renewed, lifecycle.Renew{Key: l.Key, Token: token, Checkpoint: []byte("half")})
		l.complete(token)
		before := l.rec
		l.forget(true)
		expect(l, "greater token", l.rec.Token > token, true)
		if difference := Diff(&oncekeeper.KeyRecord{
			Key: l.Key, State: oncekeeper.StoredReleased, Token: l.rec.Token, Revision: before.Revision + 1,
			AnyFingerprint: true, Granted: before.Granted, Created: created, LeaseEnd: l.rec.LeaseEnd,
			Origin: oncekeeper.OriginOperator, Settled: l.now, Expires: l.now.Add(retention),
			History: []oncekeeper.HistoryEntry{
				{Token: token, Event: oncekeeper.EventCompleted, Attempt: 1, Holder: before.Holder, Ended: before.Settled},
				{Token: l.rec.Token, Event: oncekeeper.EventDeleted, Ended: l.now},
			},
		}, l.rec); difference != "" {
			l.fail("deleted record", difference, "none")
		}
		if l.rec.LastOutcome() != nil {
			l.fail("outcome", l.rec.LastOutcome(), nil)
		}
		deleted := l.rec.Token
		next := l.granted(1)
		expect(l, "greater token", next > deleted, true)
		l.unchanged(lifecycle.Fenced, completion(l.Key, token))
	}},
	{"any fingerprint fits a deleted key, and the next one stays", func(l *Life) {
		l.abandoned()
		l.forget(false)
		l.granted(1, sending("raw", "another"))
		expect(l, "any fingerprint", l.rec.AnyFingerprint, false)
		l.unchanged(lifecycle.Mismatch, l.asks())
		l.unchanged(lifecycle.InProgress, l.asks(sending("raw", "another")))
	}},
	{"an empty fingerprint fits a deleted key, and stays as any other", func(l *Life) {
		l.abandoned()
		l.forget(false)
		l.granted(1, sending("", ""))
		l.unchanged(lifecycle.Mismatch, l.asks(sending("", "digest")))
	}},
	{"a fingerprint of the empty scheme fits a deleted key", func(l *Life) {
		l.abandoned()
		l.forget(false)
		l.granted(1, sending("", "digest"))
		l.unchanged(lifecycle.Mismatch, l.asks(sending("", "another")))
	}},
	{"a deleted key has no call to retry", func(l *Life) {
		asked := l.asks()
		token := l.play(lifecycle.Granted, asked).Token
		l.wait(lease)
		l.forget(false)
		l.play(lifecycle.Granted, asked)
		expect(l, "attempt", l.rec.Attempt, 1)
		expect(l, "greater token", l.rec.Token > token, true)
	}},
	{"a deletion by force fences a running attempt", func(l *Life) {
		token := l.granted(1)
		l.forget(true)
		l.unchanged(lifecycle.Fenced, completion(l.Key, token))
		l.granted(1)
		expect(l, "takeover", l.rec.Takeover, false)
	}},
	{"a deleted key may be deleted again, by its new etag", func(l *Life) {
		l.released()
		etag := l.rec.Etag()
		l.forget(false)
		token := l.rec.Token
		l.unchanged(lifecycle.EtagMismatch, lifecycle.Delete{Key: l.Key, Etag: etag})
		l.forget(false)
		expect(l, "greater token", l.rec.Token > token, true)
	}},
}
