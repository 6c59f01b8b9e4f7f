package storagetest

import (
	"slices"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var reading = []check{
	{"a read gives one record for each key, in order, and nil for none", func(h *hands) {
		keys := everyState(h)
		slices.Reverse(keys)
		h.read(append(keys, keys[0], keyOf("none"), keys[3], keys[0])...)
	}},
	{"a read of no keys gives the time", func(h *hands) {
		if now := h.read().Now; now == 0 {
			h.Fatalf("now: got %d, want the store's clock", now)
		}
	}},
	{"a read of a thousand keys is whole", func(h *hands) {
		keys := keysOf(1000)
		for i := 0; i < len(keys); i += 2 {
			h.granted(keys[i])
		}
		h.read(keys...)
	}},
	{"a record that is gone is none, swept or not", func(h *hands) {
		key := keyOf("k")
		h.completed(key)
		h.Advance(retention)
		h.absent(key)
		expect(h, "swept", h.sweepOut(grace(0)), 1)
		h.absent(key)
	}},
	{"a read changes nothing", func(h *hands) {
		keys := everyState(h)
		for range 3 {
			h.read(keys...)
		}
		h.Advance(100 * unsettled)
		h.read(keys...)
		swept := h.sweep(dryRun(0))
		h.read(keys...)
		expect(h, "gone after reads", h.sweep(dryRun(0)), swept)
	}},
	{"a change is read by everybody from the moment it was answered", func(h *hands) {
		keys := keysOf(8)
		h.together(len(keys), func(one *hands, i int) {
			for range 20 {
				one.want(lifecycle.Settled, fails(keys[i], one.granted(keys[i]), oncekeeper.SettledRetryable))
				one.read(keys[i])
			}
		})
	}},
}
