package storagetest

import (
	"errors"
	"fmt"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

var applying = []check{
	{"no commands give no results", func(h *hands) {
		expect(h, "results", len(h.Store.Apply(background)), 0)
	}},
	{"results come in the order of the commands", func(h *hands) {
		keys := keysOf(6)
		done, running, released := h.completed(keys[0]), h.granted(keys[1]), h.granted(keys[2])
		h.want(lifecycle.Settled, fails(keys[2], released, oncekeeper.SettledRetryable))
		results := h.apply(
			h.begins(keys[3]), completes(keys[4], 1), h.begins(keys[0]), h.begins(keys[1]),
			completes(keys[1], running+1), h.begins(keys[2]), completes(keys[0], done), h.begins(keys[5]),
		)
		for i, want := range []lifecycle.Verdict{
			lifecycle.Granted, lifecycle.NotFound, lifecycle.Replayed, lifecycle.InProgress,
			lifecycle.Fenced, lifecycle.Granted, lifecycle.Settled, lifecycle.Granted,
		} {
			expect(h, fmt.Sprintf("verdict %d", i), results[i].Verdict, want)
		}
		expect(h, "key of the first record", results[0].Record.Key, keys[3])
		expect(h, "key of the last record", results[7].Record.Key, keys[5])
	}},
	{"the begins of one call share a bounded answer, and what does not fit is asked for alone", func(h *hands) {
		keys := keysOf(5)
		for _, key := range keys[:4] {
			settle := completes(key, h.granted(key))
			settle.Response = &oncekeeper.Response{Body: make([]byte, storage.MaxAnswerBytes/3)}
			h.want(lifecycle.Settled, settle)
		}
		results := h.Store.Apply(background, h.begins(keys[0]), h.begins(keys[1]), h.begins(keys[2]), h.begins(keys[3]), h.begins(keys[4]))
		for i, res := range results {
			if i < 2 {
				expect(h, fmt.Sprintf("verdict %d", i), res.Verdict, lifecycle.Replayed)
				continue
			}
			expect(h, fmt.Sprintf("%d is asked for alone", i), errors.Is(res.Err, oncekeeper.ErrAskAlone), true)
		}
		h.want(lifecycle.Replayed, h.begins(keys[2]))
		h.want(lifecycle.Granted, h.begins(keys[4]))
		h.read(keys...)
	}},
	{"two begins of one key in one call are judged one after the other", func(h *hands) {
		key := keyOf("k")
		results := h.apply(h.begins(key), h.begins(key))
		expect(h, "first", results[0].Verdict, lifecycle.Granted)
		expect(h, "second", results[1].Verdict, lifecycle.InProgress)
		expect(h, "token of the second's record", results[1].Record.Token, results[0].Record.Token)
		h.read(key)
	}},
	{"a call's commands on one key see each other, with others in between", func(h *hands) {
		one, other := keyOf("one"), keyOf("other")
		token := h.granted(one)
		results := h.apply(
			lifecycle.Renew{Key: one, Token: token, Checkpoint: []byte("half")},
			h.begins(other),
			fails(one, token, oncekeeper.SettledRetryable),
			h.begins(one),
			h.begins(other),
			completes(one, token),
			h.begins(one),
		)
		for i, want := range []lifecycle.Verdict{
			lifecycle.Renewed, lifecycle.Granted, lifecycle.Settled, lifecycle.Granted,
			lifecycle.InProgress, lifecycle.Fenced, lifecycle.InProgress,
		} {
			expect(h, fmt.Sprintf("verdict %d", i), results[i].Verdict, want)
		}
		expect(h, "checkpoint", string(results[3].Record.Checkpoint), "half")
		h.read(one, other)
	}},
	{"an equal settlement twice in one call is one settlement", func(h *hands) {
		key := keyOf("k")
		token := h.granted(key)
		results := h.apply(completes(key, token), completes(key, token), fails(key, token, oncekeeper.SettledFinal), h.begins(key))
		for i, want := range []lifecycle.Verdict{
			lifecycle.Settled, lifecycle.Settled, lifecycle.AlreadySettled, lifecycle.Replayed,
		} {
			expect(h, fmt.Sprintf("verdict %d", i), results[i].Verdict, want)
		}
		h.read(key)
	}},
	{"a call of a thousand commands is judged whole", func(h *hands) {
		keys := keysOf(500)
		var cmds []lifecycle.Command
		for range 2 {
			for _, key := range keys {
				cmds = append(cmds, h.begins(key))
			}
		}
		for i, res := range h.apply(cmds...) {
			want := lifecycle.Granted
			if i >= len(keys) {
				want = lifecycle.InProgress
			}
			expect(h, fmt.Sprintf("verdict %d", i), res.Verdict, want)
		}
		h.read(keys...)
	}},
	{"a refusal is a verdict, whose sentinel it has, and no error", func(h *hands) {
		key := keyOf("k")
		none := h.want(lifecycle.NotFound, completes(key, 1))
		token := h.granted(key)
		fenced := h.want(lifecycle.Fenced, completes(key, token-1))
		other := h.begins(key)
		other.Fingerprint = []byte("another")
		mismatch := h.want(lifecycle.Mismatch, other)
		live := h.want(lifecycle.Live, lifecycle.Resolve{Key: key, Etag: fenced.Record.Etag()})
		stale := h.want(lifecycle.EtagMismatch, lifecycle.Delete{Key: key, Etag: "stale", Force: true})
		h.want(lifecycle.Settled, completes(key, token))
		settled := h.want(lifecycle.AlreadySettled, fails(key, token, oncekeeper.SettledFinal))
		for _, c := range []struct{ got, want error }{
			{none.Refusal(), oncekeeper.ErrKeyNotFound},
			{fenced.Refusal(), oncekeeper.ErrFenced},
			{mismatch.Refusal(), oncekeeper.ErrFingerprintMismatch},
			{live.Refusal(), oncekeeper.ErrInProgress},
			{stale.Refusal(), oncekeeper.ErrEtagMismatch},
			{settled.Refusal(), oncekeeper.ErrAlreadySettled},
		} {
			if !errors.Is(c.got, c.want) {
				h.Fatalf("refusal: got %v, want %v", c.got, c.want)
			}
		}
	}},
	{"what changes nothing makes no new version", func(h *hands) {
		key := keyOf("k")
		begin := h.begins(key)
		first := h.want(lifecycle.Granted, begin)
		h.want(lifecycle.Granted, begin)
		h.want(lifecycle.InProgress, h.begins(key))
		h.want(lifecycle.Fenced, completes(key, first.Record.Token+1))
		expect(h, "etag", h.read(key).Records[0].Etag(), first.Record.Etag())
	}},
	{"the clock moves on and never back", func(h *hands) {
		key := keyOf("k")
		before := h.want(lifecycle.Granted, h.begins(key)).Now
		h.Advance(lease)
		after := h.want(lifecycle.Granted, h.begins(key)).Now
		if after < before.Add(lease) {
			h.Fatalf("a minute after %d it is %d", before, after)
		}
		h.read(key)
		h.list(listAll)
		h.granted(keyOf("other"))
	}},
	{"a store that can be written to says so", func(h *hands) {
		if err := h.Store.Ping(background); err != nil {
			h.Fatalf("ping: %v", err)
		}
		if shared := h.Store.Shared(); shared != h.Store.Shared() {
			h.Fatalf("shared: got both %v and %v", shared, !shared)
		}
	}},
}
