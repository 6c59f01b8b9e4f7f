package lifecycletest

import (
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// asking changes one thing about a Begin.
type asking func(*lifecycle.Begin)

func calling(id string) asking { return func(c *lifecycle.Begin) { c.CallID = id } }

func sending(scheme, fingerprint string) asking {
	return func(c *lifecycle.Begin) { c.FingerprintScheme, c.Fingerprint = scheme, []byte(fingerprint) }
}

func hold(c *lifecycle.Begin) { c.Grant.Hold = true }

// Traceparents, as W3C's Trace Context has them.
const (
	firstTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	secondTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func traced(parent string) asking { return func(c *lifecycle.Begin) { c.TraceParent = parent } }

func attempts(n int32) asking {
	return func(c *lifecycle.Begin) { c.Grant.MaxAttempts = n }
}

func leased(d time.Duration) asking {
	return func(c *lifecycle.Begin) { c.Grant.Lease = d }
}

func retained(d time.Duration) asking {
	return func(c *lifecycle.Begin) { c.Grant.Retention = d }
}

func remembered(d time.Duration) asking {
	return func(c *lifecycle.Begin) { c.Grant.UnsettledRetention = d }
}

// asks gives a Begin with a call id of its own.
func (l *Life) asks(asks ...asking) lifecycle.Begin {
	l.calls++
	c := lifecycle.Begin{
		Key:               l.Key,
		Fingerprint:       []byte("digest"),
		FingerprintScheme: "raw",
		CallID:            fmt.Sprintf("call-%d", l.calls),
		Holder:            fmt.Sprintf("holder-%d", l.calls),
		Grant:             oncekeeper.Grant{Lease: lease, Retention: retention, UnsettledRetention: unsettled},
	}
	for _, ask := range asks {
		ask(&c)
	}
	return c
}

// begin plays a Begin and gives the record's token.
func (l *Life) begin(want lifecycle.Verdict, asks ...asking) int64 {
	l.T.Helper()
	return l.play(want, l.asks(asks...)).Token
}

// granted begins, and expects the attempt of that number.
func (l *Life) granted(number int32, asks ...asking) int64 {
	l.T.Helper()
	token := l.begin(lifecycle.Granted, asks...)
	expect(l, "attempt", l.rec.Attempt, number)
	l.state(oncekeeper.StatePending)
	return token
}

func completion(key oncekeeper.Key, token int64) lifecycle.Settle {
	return lifecycle.Settle{
		Key: key, Token: token, As: oncekeeper.SettledComplete,
		Response: &oncekeeper.Response{
			Body: []byte("paid"), ContentType: "text/plain", StatusCode: 201, Resource: "charges/1",
			Metadata: []oncekeeper.MetadataEntry{
				{Kind: oncekeeper.MetadataHeader, Name: "a", Value: []byte("1")},
				{Kind: oncekeeper.MetadataTrailer, Name: "b", Value: []byte{0, 255}},
			},
		},
	}
}

func failure(key oncekeeper.Key, token int64, as oncekeeper.Settlement) lifecycle.Settle {
	return lifecycle.Settle{
		Key: key, Token: token, As: as,
		Status: &oncekeeper.Status{Code: 9, Message: "no funds", Details: [][]byte{{1}, {2, 3}}},
	}
}

func (l *Life) complete(token int64) {
	l.T.Helper()
	l.play(lifecycle.Settled, completion(l.Key, token))
}

func (l *Life) settle(token int64, as oncekeeper.Settlement) {
	l.T.Helper()
	l.play(lifecycle.Settled, failure(l.Key, token, as))
}

// released is granted once and given back.
func (l *Life) released(asks ...asking) int64 {
	l.T.Helper()
	token := l.granted(1, asks...)
	l.settle(token, oncekeeper.SettledRetryable)
	l.state(oncekeeper.StateReleased)
	return token
}

// abandoned is granted once and not heard of until its lease is over.
func (l *Life) abandoned(asks ...asking) int64 {
	l.T.Helper()
	token := l.granted(1, asks...)
	l.wait(lease)
	return token
}

// takenOver is abandoned and granted again.
func (l *Life) takenOver(asks ...asking) (first, second int64) {
	l.T.Helper()
	first = l.abandoned(asks...)
	second = l.granted(2, asks...)
	return first, second
}

func (l *Life) renew(token int64, d time.Duration) {
	l.T.Helper()
	l.play(lifecycle.Renewed, lifecycle.Renew{Key: l.Key, Token: token, Lease: d})
}

// release is an operator's word that nothing stands; without force.
func (l *Life) release() {
	l.T.Helper()
	l.play(lifecycle.Resolved, lifecycle.Resolve{Key: l.Key, Etag: l.rec.Etag()})
}

func (l *Life) forget(force bool) {
	l.T.Helper()
	l.play(lifecycle.Deleted, lifecycle.Delete{Key: l.Key, Etag: l.rec.Etag(), Force: force})
}
