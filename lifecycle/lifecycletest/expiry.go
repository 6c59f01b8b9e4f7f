package lifecycletest

import (
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var expiring = []Scenario{
	{"an outcome is there until the end of its retention, and gone from then on", func(l *Life) {
		token := l.granted(1)
		l.complete(token)
		expect(l, "expiry", l.rec.Expires, l.now.Add(retention))
		l.wait(retention - l.Moment)
		l.begin(lifecycle.Replayed)
		l.wait(l.Moment)
		next := l.granted(1)
		expect(l, "greater token", next > token, true)
	}},
	{"a gone record is no record for any command", func(l *Life) {
		token := l.granted(1)
		l.complete(token)
		etag := l.rec.Etag()
		l.wait(retention)
		l.play(lifecycle.NotFound, completion(l.Key, token))
		l.play(lifecycle.NotFound, failure(l.Key, token, oncekeeper.SettledUnknown))
		l.play(lifecycle.NotFound, lifecycle.Renew{Key: l.Key, Token: token})
		l.play(lifecycle.NotFound, lifecycle.Resolve{Key: l.Key, Etag: etag, Force: true})
		l.play(lifecycle.NotFound, lifecycle.Delete{Key: l.Key, Etag: etag, Force: true})
	}},
	{"a new life remembers nothing of the last but to be fenced from it", func(l *Life) {
		_, second := l.takenOver()
		l.play(lifecycle.Renewed, lifecycle.Renew{Key: l.Key, Token: second, Checkpoint: []byte("half")})
		call := l.rec.CallID
		l.complete(second)
		l.wait(retention)
		asked := l.asks(sending("raw", "another"), calling(call))
		l.play(lifecycle.Granted, asked)
		expect(l, "greater token", l.rec.Token > second, true)
		if difference := Diff(&oncekeeper.KeyRecord{
			Key: l.Key, State: oncekeeper.StoredPending, Token: l.rec.Token, Revision: 1,
			Fingerprint: asked.Fingerprint, FingerprintScheme: asked.FingerprintScheme,
			CallID: call, Attempt: 1, Granted: asked.Grant, Holder: asked.Holder, Principal: asked.Principal, Created: l.now,
			LeaseEnd: l.now.Add(lease), UnsettledUntil: l.now.Add(lease).Add(unsettled),
			Expires: l.now.Add(lease).Add(unsettled),
		}, l.rec); difference != "" {
			l.fail("record of the new life", difference, "none")
		}
		l.unchanged(lifecycle.Fenced, completion(l.Key, second))
	}},
	{"a settlement may ask for its own retention", func(l *Life) {
		settle := completion(l.Key, l.granted(1))
		settle.Retention = 3 * retention
		l.play(lifecycle.Settled, settle)
		expect(l, "expiry", l.rec.Expires, l.now.Add(3*retention))
	}},
	{"no retention is shorter than the lease that was granted", func(l *Life) {
		settle := completion(l.Key, l.granted(1, retained(time.Microsecond)))
		settle.Retention = time.Microsecond
		l.play(lifecycle.Settled, settle)
		expect(l, "expiry", l.rec.Expires, l.now.Add(lease))
	}},
	{"retention counts from the settlement, not from a repetition of it", func(l *Life) {
		token := l.granted(1)
		l.complete(token)
		l.wait(retention / 2)
		l.complete(token)
		l.wait(retention / 2)
		l.granted(1)
	}},
	{"a released key with nothing standing is forgotten after its retention", func(l *Life) {
		l.released()
		expect(l, "expiry", l.rec.Expires, l.now.Add(retention))
		l.wait(retention)
		l.granted(1)
	}},
	{"an exhausted key is kept for the retention of its last grant", func(l *Life) {
		token := l.granted(1, attempts(1))
		settle := failure(l.Key, token, oncekeeper.SettledRetryable)
		settle.Retention = 2 * retention
		l.play(lifecycle.Settled, settle)
		l.begin(lifecycle.Replayed)
		expect(l, "expiry", l.rec.Expires, l.now.Add(retention))
		l.wait(retention)
		l.granted(1)
	}},
	{"a running attempt never expires, however long it is renewed", func(l *Life) {
		token := l.granted(1, remembered(time.Microsecond), retained(time.Microsecond))
		for range 5 {
			l.wait(lease - l.Moment)
			l.renew(token, lease)
		}
		l.wait(lease - l.Moment)
		l.unchanged(lifecycle.InProgress, l.asks())
	}},
	{"a held key never expires, and one that its holder released does", func(l *Life) {
		token := l.abandoned(hold)
		expect(l, "expiry", l.rec.Expires, 0)
		l.wait(100 * unsettled)
		l.begin(lifecycle.Unresolved)
		l.settle(token, oncekeeper.SettledRetryable)
		l.wait(retention)
		l.granted(1)
	}},
	{"what an operator released or deleted is forgotten after the retention", func(l *Life) {
		l.abandoned(hold)
		l.release()
		expect(l, "expiry", l.rec.Expires, l.now.Add(retention))
		l.forget(false)
		expect(l, "expiry", l.rec.Expires, l.now.Add(retention))
		token := l.rec.Token
		l.wait(retention)
		expect(l, "greater token", l.granted(1) > token, true)
	}},
}

var remembering = []Scenario{
	{"an abandoned attempt is remembered for the unsettled retention, though its own is short", func(l *Life) {
		l.granted(1, retained(time.Microsecond))
		l.wait(lease + unsettled - l.Moment)
		l.granted(2)
		expect(l, "takeover", l.rec.Takeover, true)
	}},
	{"an abandoned attempt is forgotten at the end of its unsettled retention", func(l *Life) {
		l.granted(1)
		l.wait(lease + unsettled)
		l.granted(1)
		expect(l, "takeover", l.rec.Takeover, false)
	}},
	{"an unknown outcome is remembered from the end of its lease, not from when it was said", func(l *Life) {
		settle := failure(l.Key, l.granted(1), oncekeeper.SettledUnknown)
		end := l.rec.LeaseEnd
		settle.Retention = time.Microsecond
		l.play(lifecycle.Settled, settle)
		expect(l, "expiry", l.rec.Expires, end.Add(unsettled))
	}},
	{"a short retention never hides that an effect may stand", func(l *Life) {
		_, second := l.takenOver(retained(time.Microsecond))
		until := l.rec.UnsettledUntil
		settle := failure(l.Key, second, oncekeeper.SettledRetryable)
		settle.Retention = time.Microsecond
		l.play(lifecycle.Settled, settle)
		expect(l, "expiry", l.rec.Expires, until)
		l.wait(unsettled)
		l.granted(3)
		expect(l, "takeover", l.rec.Takeover, true)
	}},
	{"a later grant never shortens how long an unknown outcome is remembered", func(l *Life) {
		l.abandoned()
		until := l.rec.UnsettledUntil
		brief := []asking{remembered(time.Microsecond), retained(time.Microsecond)}
		second := l.granted(2, brief...)
		expect(l, "unsettled until", l.rec.UnsettledUntil, until)
		l.settle(second, oncekeeper.SettledRetryable)
		expect(l, "expiry", l.rec.Expires, until)
		third := l.granted(3, brief...)
		l.wait(lease)
		expect(l, "expiry of the third", l.rec.Expires, until)
		l.settle(third, oncekeeper.SettledRetryable)
		expect(l, "expiry", l.rec.Expires, until)
	}},
	{"a renewal makes an unknown outcome remembered the longer", func(l *Life) {
		token := l.granted(1)
		l.wait(lease / 2)
		l.renew(token, 2*lease)
		expect(l, "unsettled until", l.rec.UnsettledUntil, l.now.Add(2*lease).Add(unsettled))
		expect(l, "expiry", l.rec.Expires, l.rec.UnsettledUntil)
	}},
	{"a completion after a takeover is kept for its own retention", func(l *Life) {
		_, second := l.takenOver()
		l.complete(second)
		expect(l, "expiry", l.rec.Expires, l.now.Add(retention))
	}},
}
