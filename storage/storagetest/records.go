package storagetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// OddKeys gives distinct valid keys, each of which some store has folded, cut,
// joined or refused.
func OddKeys() []oncekeeper.Key {
	var keys []oncekeeper.Key
	for _, id := range []string{
		"\u00e9", "e\u0301", "K", "k", "\u212a", "ß", "SS", "ss", "İ", "i", "ı", "ﬁ", "fi",
		"a b", "a  b", "a\u00a0b", "1", "01", "1.0", "%", "_", "\\", "'", "\"", "\\x00", "null", "NULL", "{}",
		"🙂", "\u200b", "\ufeffk", "\U0010ffff", "\uffff", "k\u0301", "-", "--", "..", "/", "//",
		strings.Repeat("x", oncekeeper.MaxIDBytes),
		strings.Repeat("x", oncekeeper.MaxIDBytes-1),
		strings.Repeat("x", oncekeeper.MaxIDBytes-1) + "y",
		strings.Repeat("é", oncekeeper.MaxIDBytes/2),
	} {
		keys = append(keys, keyOf(id))
	}
	// Triples that a join of their parts could take for each other.
	for _, parts := range [][3]string{
		{"a", "b", "c"}, {"a:b", "c", "d"}, {"a", "b:c", "d"}, {"a", "b", "c:d"}, {"a:", "b", "c:d"},
		{"a/b", "c", "d"}, {"a", "b/c", "d"}, {"a", "b", "c/d"}, {"a%3Ab", "c", "d"}, {"a", "b%3Ac", "d"},
		{"a#b", "c", "d"}, {"a", "b#c", "d"}, {"a", "b", "c#d"}, {"ab", "c", "d"}, {"a", "bc", "d"}, {"a", "b", "cd"},
		{"a|b", "c", "d"}, {"a", "b|c", "d"}, {"a\\", "b", "d"}, {"a", "\\b", "d"}, {"a.b", "c", "d"}, {"a", "b.c", "d"},
		{"A", "b", "c"}, {"a", "B", "c"}, {"b", "a", "c"}, {"c", "b", "a"},
	} {
		keys = append(keys, oncekeeper.Key{Tenant: parts[0], Operation: parts[1], ID: parts[2]})
	}
	return append(keys,
		oncekeeper.Key{
			Tenant:    strings.Repeat("t", oncekeeper.MaxTenantBytes),
			Operation: strings.Repeat("o", oncekeeper.MaxOperationBytes),
			ID:        strings.Repeat("i", oncekeeper.MaxIDBytes),
		},
		oncekeeper.Key{
			Tenant:    strings.Repeat("\U0010ffff", oncekeeper.MaxTenantBytes/4),
			Operation: strings.Repeat("\U0010ffff", oncekeeper.MaxOperationBytes/4),
			ID:        strings.Repeat("\U0010ffff", oncekeeper.MaxIDBytes/4),
		},
	)
}

var keeping = []check{
	{"keys that differ in any byte of any part are separate records", func(h *hands) {
		keys := OddKeys()
		for _, key := range keys {
			res := h.want(lifecycle.Granted, h.begins(key))
			expect(h, "key of the record", res.Record.Key, key)
		}
		h.read(keys...)
		for _, key := range keys {
			h.want(lifecycle.InProgress, h.begins(key))
		}
		expect(h, "records listed", len(h.list(listAll)), len(keys))
	}},
	{"keys that differ in any byte are separate records within one call", func(h *hands) {
		keys := OddKeys()
		var cmds []lifecycle.Command
		for _, key := range keys {
			cmds = append(cmds, h.begins(key))
		}
		for i, res := range h.apply(cmds...) {
			expect(h, fmt.Sprintf("verdict on %q", keys[i]), res.Verdict, lifecycle.Granted)
		}
		h.read(keys...)
	}},
}

// fullest gives commands that fill every field of a record, to its limit and with
// bytes of every value where bytes are allowed.
func fullest(h *hands, key oncekeeper.Key) (begin lifecycle.Begin, renew lifecycle.Renew) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	begin = h.begins(key)
	begin.Fingerprint = every[256-oncekeeper.MaxFingerprintBytes:]
	begin.FingerprintScheme = strings.Repeat("s", oncekeeper.MaxSchemeBytes)
	begin.CallID = strings.Repeat("c", oncekeeper.MaxCallIDBytes)
	begin.Holder = strings.Repeat("é", oncekeeper.MaxHolderBytes/2)
	begin.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	begin.Grant = oncekeeper.Grant{
		Lease: lease + time.Microsecond, Retention: 400*24*time.Hour + time.Microsecond,
		UnsettledRetention: unsettled + time.Microsecond, MaxAttempts: 1<<31 - 1,
	}
	return begin, lifecycle.Renew{
		Key: key, Lease: lease + 3*time.Microsecond,
		Checkpoint: bytes.Repeat(every, oncekeeper.MaxCheckpointBytes/len(every)),
	}
}

// outcomes are what a settlement may carry at its extremes.
func outcomes() map[string]lifecycle.Settle {
	var entries []oncekeeper.MetadataEntry
	for i := range oncekeeper.MaxMetadataEntries {
		entries = append(entries, oncekeeper.MetadataEntry{
			Kind: oncekeeper.MetadataKind(1 + i%2), Name: fmt.Sprintf("n-%d", 63-i), Value: []byte{byte(i), 0, 0xff, 0xc0},
		})
	}
	body := func(size int) lifecycle.Settle {
		return lifecycle.Settle{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{
			Body: bytes.Repeat([]byte{0, 1, 0xfe, 0xff}, (size+3)/4)[:size],
		}}
	}
	status := func(as oncekeeper.Settlement) lifecycle.Settle {
		return lifecycle.Settle{As: as, Retention: 7*time.Hour + time.Microsecond, Status: &oncekeeper.Status{
			Code: 16, Message: "é\x00" + strings.Repeat("m", oncekeeper.MaxStatusMessageBytes-3),
			Details: [][]byte{{}, {0}, bytes.Repeat([]byte{0xff}, 1000), {}},
		}}
	}
	return map[string]lifecycle.Settle{
		"an empty response": {As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{}},
		"one byte":          body(1),
		"a mebibyte":        body(1 << 20),
		"a mebibyte less 1": body(1<<20 - 1),
		"five mebibytes":    body(5 << 20),
		"every field of a response": {As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{
			Body: []byte{0, 0xff}, ContentType: strings.Repeat("t", oncekeeper.MaxContentTypeBytes), Metadata: entries,
			StatusCode: 599, Resource: strings.Repeat("é", oncekeeper.MaxResourceBytes/2),
		}},
		"an omitted response":   {As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Omitted: true, Resource: "charges/1"}},
		"a final failure":       status(oncekeeper.SettledFinal),
		"a retryable failure":   status(oncekeeper.SettledRetryable),
		"an unknown outcome":    status(oncekeeper.SettledUnknown),
		"a code and no message": {As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: 1}},
	}
}

var wholeRecords = []check{
	{"every field of a record comes back as it went in, and survives the store", func(h *hands) {
		var keys []oncekeeper.Key
		for name, settle := range outcomes() {
			key := keyOf(name)
			keys = append(keys, key)
			begin, renew := fullest(h, key)
			token := h.want(lifecycle.Granted, begin).Record.Token
			renew.Token, settle.Token, settle.Key = token, token, key
			h.want(lifecycle.Renewed, renew)
			h.want(lifecycle.Settled, settle)
			h.read(key)
			h.want(lifecycle.Settled, settle)
		}
		if h.reopen() {
			h.read(keys...)
			h.list(listAll)
		}
	}},
	{"every state of a record survives the store", func(h *hands) {
		keys := everyState(h)
		h.read(keys...)
		if h.reopen() {
			h.read(keys...)
			h.list(listAll)
			for _, key := range keys {
				h.apply(h.begins(key))
			}
			h.read(keys...)
		}
	}},
	{"a store opened again goes on from the clock and the tokens that it had", func(h *hands) {
		key := keyOf("k")
		begin := h.begins(key)
		h.want(lifecycle.Granted, begin)
		if h.reopen() {
			h.want(lifecycle.Granted, begin)
			h.want(lifecycle.InProgress, h.begins(key))
			h.Advance(lease)
			h.want(lifecycle.Granted, h.begins(key))
			h.sweepOut(grace(0))
			h.read(key)
		}
	}},
}

// everyState brings keys to every state that a record can be in.
func everyState(h *hands) []oncekeeper.Key {
	h.Helper()
	key := keyOf
	held := h.begins(key("unresolved"))
	held.Grant.Hold = true
	h.want(lifecycle.Granted, held)
	h.granted(key("abandoned"))
	h.Advance(lease)
	h.granted(key("pending"))
	h.completed(key("completed"))
	for id, as := range map[string]oncekeeper.Settlement{
		"released": oncekeeper.SettledRetryable, "failed": oncekeeper.SettledFinal, "unknown": oncekeeper.SettledUnknown,
	} {
		h.want(lifecycle.Settled, fails(key(id), h.granted(key(id)), as))
	}
	once := h.begins(key("exhausted"))
	once.Grant.MaxAttempts = 1
	token := h.want(lifecycle.Granted, once).Record.Token
	h.want(lifecycle.Settled, fails(once.Key, token, oncekeeper.SettledRetryable))
	h.want(lifecycle.Replayed, h.begins(once.Key))
	h.completed(key("deleted"))
	h.want(lifecycle.Deleted, lifecycle.Delete{Key: key("deleted"), Etag: h.mirror[key("deleted")].Etag(), Force: true})
	h.granted(key("operator"))
	h.want(lifecycle.Resolved, lifecycle.Resolve{
		Key: key("operator"), Etag: h.mirror[key("operator")].Etag(), Force: true,
		Response: &oncekeeper.Response{Body: []byte("by hand")},
	})
	return []oncekeeper.Key{
		key("unresolved"), key("abandoned"), key("pending"), key("completed"), key("released"), key("failed"),
		key("unknown"), key("exhausted"), key("deleted"), key("operator"), key("never begun"),
	}
}
