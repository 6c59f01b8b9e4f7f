package storagetest

import (
	"fmt"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var wentThrough = []check{
	{"what a key went through comes back as it went in, at its fullest, and survives the store", func(h *hands) {
		key := keyOf("k")
		for i := range oncekeeper.MaxHistory {
			begin, _ := fullest(h, key)
			token := h.want(lifecycle.Granted, begin).Record.Token
			settle := fails(key, token, oncekeeper.SettledRetryable)
			settle.Status = &oncekeeper.Status{Code: 16, Message: "é\x00" + strings.Repeat("é", oncekeeper.MaxHistoryMessageBytes)}
			h.want(lifecycle.Settled, settle)
			h.want(lifecycle.Deleted, lifecycle.Delete{
				Key: key, Etag: h.mirror[key].Etag(), Principal: "clerk", Reason: fmt.Sprint(i) + strings.Repeat("r", oncekeeper.MaxReasonBytes-1),
			})
		}
		expect(h, "entries kept", len(h.mirror[key].History), oncekeeper.MaxHistory)
		h.read(key)
		h.completed(key)
		h.read(key)
		if h.reopen() {
			h.read(key)
			h.list(listAll)
		}
	}},
	{"what a key went through is there for its next attempt, whoever settles in between", func(h *hands) {
		key := keyOf("k")
		for range 3 {
			h.want(lifecycle.Settled, fails(key, h.granted(key), oncekeeper.SettledRetryable))
			h.read(key)
		}
		h.granted(key)
		expect(h, "entries kept", len(h.read(key).Records[0].History), 3)
	}},
}
