package lifecycletest

import (
	"slices"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var renewing = []Scenario{
	{"a renewal counts from now and never shortens the lease", func(l *Life) {
		token := l.granted(1)
		end := l.rec.LeaseEnd
		l.renew(token, lease/2)
		expect(l, "lease end", l.rec.LeaseEnd, end)
		l.wait(lease - l.Moment)
		l.renew(token, lease/2)
		expect(l, "lease end", l.rec.LeaseEnd, l.now.Add(lease/2))
		l.wait(lease/2 - l.Moment)
		l.unchanged(lifecycle.InProgress, l.asks())
	}},
	{"a renewal that asks for nothing is given the lease of the grant", func(l *Life) {
		token := l.granted(1, leased(2*lease))
		l.wait(lease)
		l.renew(token, 0)
		expect(l, "lease end", l.rec.LeaseEnd, l.now.Add(2*lease))
	}},
	{"a lapsed attempt that nobody took over may be renewed", func(l *Life) {
		token := l.abandoned()
		l.renew(token, lease)
		l.state(oncekeeper.StatePending)
		expect(l, "takeover", l.rec.Takeover, false)
		l.unchanged(lifecycle.InProgress, l.asks())
	}},
	{"a renewal that extends nothing changes nothing", func(l *Life) {
		token := l.granted(1)
		l.unchanged(lifecycle.Renewed, lifecycle.Renew{Key: l.Key, Token: token, Lease: lease / 2})
	}},
	{"a held attempt may be renewed, and runs again", func(l *Life) {
		token := l.abandoned(hold)
		l.begin(lifecycle.Unresolved)
		l.renew(token, lease)
		l.begin(lifecycle.InProgress)
		l.wait(lease)
		l.begin(lifecycle.Unresolved)
	}},
	{"an attempt given up and held may be renewed, and is still held when that lease ends", func(l *Life) {
		token := l.abandoned(attempts(1))
		l.begin(lifecycle.Unresolved)
		l.renew(token, lease)
		l.begin(lifecycle.InProgress)
		l.wait(lease)
		l.begin(lifecycle.Unresolved)
	}},
	{"an attempt that was settled in any way is not renewed", func(l *Life) {
		token := l.granted(1)
		l.settle(token, oncekeeper.SettledUnknown)
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Renew{Key: l.Key, Token: token, Lease: lease})
		l.settle(token, oncekeeper.SettledRetryable)
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Renew{Key: l.Key, Token: token, Lease: lease})
		token = l.granted(2)
		l.complete(token)
		l.unchanged(lifecycle.AlreadySettled, lifecycle.Renew{Key: l.Key, Token: token, Lease: lease})
	}},
	{"a checkpoint is kept until another is saved, also across a takeover", func(l *Life) {
		token := l.granted(1)
		l.play(lifecycle.Renewed, lifecycle.Renew{Key: l.Key, Token: token, Checkpoint: []byte("half")})
		l.renew(token, lease)
		expect(l, "checkpoint", string(l.rec.Checkpoint), "half")
		l.wait(lease)
		token = l.granted(2)
		expect(l, "checkpoint of the one taken over", string(l.rec.Checkpoint), "half")
		l.play(lifecycle.Renewed, lifecycle.Renew{Key: l.Key, Token: token, Checkpoint: []byte{}})
		expect(l, "checkpoint", string(l.rec.Checkpoint), "")
	}},
}

var settling = []Scenario{
	{"only the token at hand speaks for a key", func(l *Life) {
		_, second := l.takenOver()
		for _, token := range []int64{1, second - 1, second + 1, 1 << 53} {
			l.unchanged(lifecycle.Fenced, completion(l.Key, token))
			l.unchanged(lifecycle.Fenced, failure(l.Key, token, oncekeeper.SettledRetryable))
			l.unchanged(lifecycle.Fenced, lifecycle.Renew{Key: l.Key, Token: token})
		}
	}},
	{"a key that was never begun has nobody to settle or renew it", func(l *Life) {
		l.play(lifecycle.NotFound, completion(l.Key, 1))
		l.play(lifecycle.NotFound, failure(l.Key, 1, oncekeeper.SettledUnknown))
		l.play(lifecycle.NotFound, lifecycle.Renew{Key: l.Key, Token: 1})
		l.granted(1)
	}},
	{"a late finisher is fenced while, and after, another has the key", func(l *Life) {
		first, second := l.takenOver()
		l.unchanged(lifecycle.Fenced, completion(l.Key, first))
		l.settle(second, oncekeeper.SettledRetryable)
		l.unchanged(lifecycle.Fenced, completion(l.Key, first))
		third := l.granted(3)
		l.complete(third)
		l.unchanged(lifecycle.Fenced, completion(l.Key, first))
		l.unchanged(lifecycle.Fenced, failure(l.Key, second, oncekeeper.SettledRetryable))
		l.begin(lifecycle.Replayed)
	}},
	{"a late finisher is fenced after another failed", func(l *Life) {
		first, second := l.takenOver()
		l.settle(second, oncekeeper.SettledFinal)
		l.unchanged(lifecycle.Fenced, completion(l.Key, first))
	}},
	{"a lapsed attempt that nobody took over may still settle", func(l *Life) {
		token := l.abandoned()
		l.complete(token)
		l.unchanged(lifecycle.Replayed, l.asks())
	}},
	{"an unresolved attempt may still settle", func(l *Life) {
		token := l.abandoned(hold)
		l.begin(lifecycle.Unresolved)
		l.settle(token, oncekeeper.SettledFinal)
		l.unchanged(lifecycle.Replayed, l.asks())
	}},
	{"after an unknown outcome its holder may say that it completed", func(l *Life) {
		token := l.granted(1, hold)
		l.settle(token, oncekeeper.SettledUnknown)
		l.complete(token)
		l.state(oncekeeper.StateCompleted)
		if l.rec.Status != nil {
			l.fail("status of a completed key", l.rec.Status, nil)
		}
	}},
	{"after an unknown outcome its holder may say that it failed for good", func(l *Life) {
		token := l.granted(1)
		l.settle(token, oncekeeper.SettledUnknown)
		l.settle(token, oncekeeper.SettledFinal)
		l.unchanged(lifecycle.Replayed, l.asks())
	}},
	{"an unknown outcome is not made another unknown outcome", func(l *Life) {
		token := l.granted(1, hold)
		l.settle(token, oncekeeper.SettledUnknown)
		l.unchanged(lifecycle.Settled, failure(l.Key, token, oncekeeper.SettledUnknown))
		other := failure(l.Key, token, oncekeeper.SettledUnknown)
		other.Status = &oncekeeper.Status{Code: 4}
		l.unchanged(lifecycle.AlreadySettled, other)
	}},
	{"a released attempt keeps its status to be read, which is no outcome", func(l *Life) {
		l.released()
		if l.rec.Outcome() != nil {
			l.fail("outcome", l.rec.Outcome(), nil)
		}
		expect(l, "what the holder said", l.rec.LastOutcome().Status.Message, "no funds")
	}},
	{"an unknown outcome ends the lease", func(l *Life) {
		l.settle(l.granted(1, hold), oncekeeper.SettledUnknown)
		expect(l, "lease end", l.rec.LeaseEnd <= l.now, true)
		expect(l, "unknown since", lifecycle.UnknownSince(l.rec), l.now)
	}},
	{"a settlement changes neither the fingerprint nor what was granted", func(l *Life) {
		for _, as := range []oncekeeper.Settlement{
			oncekeeper.SettledUnknown, oncekeeper.SettledRetryable, oncekeeper.SettledFinal,
		} {
			token := l.begin(lifecycle.Granted)
			grant := l.rec.Granted
			settle := failure(l.Key, token, as)
			settle.Retention = 2 * retention
			l.play(lifecycle.Settled, settle)
			expect(l, "fingerprint", string(l.rec.Fingerprint), "digest")
			expect(l, "scheme", l.rec.FingerprintScheme, "raw")
			expect(l, "grant", l.rec.Granted, grant)
		}
	}},
}

// repeating says again, or otherwise, what was said.
func repeating() []Scenario {
	all := []Scenario{
		{"saying a settlement again is no error and changes nothing, retention included", func(l *Life) {
			for number, as := range []oncekeeper.Settlement{
				oncekeeper.SettledUnknown, oncekeeper.SettledRetryable, oncekeeper.SettledFinal,
			} {
				token := l.granted(int32(number) + 1)
				l.settle(token, as)
				l.wait(lease)
				again := failure(l.Key, token, as)
				again.Retention = 9 * retention
				l.unchanged(lifecycle.Settled, again)
			}
		}},
		{"a failure is not repeated by one of another disposition", func(l *Life) {
			token := l.granted(1)
			l.settle(token, oncekeeper.SettledRetryable)
			l.unchanged(lifecycle.AlreadySettled, failure(l.Key, token, oncekeeper.SettledFinal))
			l.unchanged(lifecycle.AlreadySettled, failure(l.Key, token, oncekeeper.SettledUnknown))
			l.unchanged(lifecycle.AlreadySettled, completion(l.Key, token))
		}},
		{"a completion is repeated by one whose body is as empty", func(l *Life) {
			token := l.granted(1)
			settle := completion(l.Key, token)
			settle.Response = &oncekeeper.Response{Body: []byte{}}
			l.play(lifecycle.Settled, settle)
			settle.Response = &oncekeeper.Response{}
			l.unchanged(lifecycle.Settled, settle)
		}},
	}
	for what, change := range map[string]func(r *oncekeeper.Response){
		"body":               func(r *oncekeeper.Response) { r.Body = []byte("paid\x00") },
		"content type":       func(r *oncekeeper.Response) { r.ContentType = "text/html" },
		"status code":        func(r *oncekeeper.Response) { r.StatusCode = 200 },
		"resource":           func(r *oncekeeper.Response) { r.Resource = "charges/2" },
		"omission":           func(r *oncekeeper.Response) { r.Omitted = true },
		"metadata order":     func(r *oncekeeper.Response) { slices.Reverse(r.Metadata) },
		"metadata entry":     func(r *oncekeeper.Response) { r.Metadata = r.Metadata[:1] },
		"metadata kind":      func(r *oncekeeper.Response) { r.Metadata[0].Kind = oncekeeper.MetadataTrailer },
		"metadata name":      func(r *oncekeeper.Response) { r.Metadata[0].Name = "A" },
		"metadata value":     func(r *oncekeeper.Response) { r.Metadata[0].Value = []byte("2") },
		"metadata, all gone": func(r *oncekeeper.Response) { r.Metadata = nil },
	} {
		all = append(all, Scenario{"a completion is not repeated by one that differs in " + what, func(l *Life) {
			token := l.granted(1)
			l.complete(token)
			other := completion(l.Key, token)
			change(other.Response)
			l.unchanged(lifecycle.AlreadySettled, other)
			l.unchanged(lifecycle.Settled, completion(l.Key, token))
		}})
	}
	for what, change := range map[string]func(s *oncekeeper.Status){
		"code":    func(s *oncekeeper.Status) { s.Code = 10 },
		"message": func(s *oncekeeper.Status) { s.Message = "no fund" },
		"details": func(s *oncekeeper.Status) { s.Details = [][]byte{{1, 2}, {3}} },
	} {
		all = append(all, Scenario{"a failure is not repeated by one that differs in " + what, func(l *Life) {
			token := l.granted(1)
			l.settle(token, oncekeeper.SettledFinal)
			other := failure(l.Key, token, oncekeeper.SettledFinal)
			change(other.Status)
			l.unchanged(lifecycle.AlreadySettled, other)
		}})
	}
	slices.SortFunc(all[3:], func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all
}
