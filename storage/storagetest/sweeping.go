package storagetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

func grace(d time.Duration) storage.SweepQuery { return storage.SweepQuery{Grace: d, Limit: 1000} }

func dryRun(d time.Duration) storage.SweepQuery {
	return storage.SweepQuery{Grace: d, Limit: 1000, DryRun: true}
}

var sweeping = []check{
	{"an empty store has nothing to sweep", func(h *hands) {
		expect(h, "swept", h.sweep(grace(0)), storage.Swept{})
		expect(h, "counted", h.sweep(dryRun(0)), storage.Swept{})
	}},
	{"a sweep takes what has been gone for its grace, and nothing else", func(h *hands) {
		h.completed(keyOf("long gone"))
		h.Advance(retention)
		h.completed(keyOf("just gone"))
		h.Advance(retention)
		keys := append(everyState(h), keyOf("long gone"), keyOf("just gone"))
		const most = retention / 2
		expect(h, "counted", h.sweep(dryRun(most)), storage.Swept{Records: 1})
		h.read(keys...)
		expect(h, "swept", h.sweep(grace(most)), storage.Swept{Records: 1})
		expect(h, "swept again", h.sweep(grace(most)), storage.Swept{})
		expect(h, "counted with no grace", h.sweep(dryRun(0)), storage.Swept{Records: 1})
		h.read(keys...)
		h.list(listAll)
		expect(h, "swept with no grace", h.sweep(grace(0)), storage.Swept{Records: 1})
		h.read(keys...)
		h.list(listAll)
	}},
	{"a grace below zero takes nothing that is not gone", func(h *hands) {
		keys := everyState(h)
		expect(h, "swept", h.sweep(grace(-2*unsettled)), storage.Swept{})
		h.read(keys...)
		expect(h, "counted", h.sweep(dryRun(-2*unsettled)), storage.Swept{})
	}},
	{"a sweep never takes what runs or is held, and takes the abandoned when it is forgotten", func(h *hands) {
		keys := everyState(h)
		h.Advance(unsettled - lease)
		h.sweepOut(grace(0))
		h.read(keys...)
		expect(h, "left", len(h.list(listAll)), 4)
		h.Advance(3 * lease)
		h.sweepOut(grace(0))
		h.read(keys...)
		expect(h, "left", len(h.list(listAll)), 1)
		expect(h, "key that is held", h.list(listAll)[0].Key.ID, "unresolved")
	}},
	{"a sweep takes at most its limit, and says that more is left", func(h *hands) {
		for _, key := range keysOf(10) {
			h.completed(key)
		}
		h.Advance(retention)
		q := storage.SweepQuery{Limit: 3, DryRun: true}
		expect(h, "counted", h.sweep(q), storage.Swept{Records: 3, More: true})
		q.DryRun = false
		expect(h, "swept first", h.sweep(q), storage.Swept{Records: 3, More: true})
		expect(h, "counted", h.sweep(dryRun(0)), storage.Swept{Records: 7})
		expect(h, "swept then", h.sweepOut(q), 7)
		expect(h, "left", h.sweep(dryRun(0)), storage.Swept{})
	}},
	{"a sweep of one tenant or operation takes no other's", func(h *hands) {
		for _, tenant := range scopes {
			for _, operation := range scopes {
				h.completed(oncekeeper.Key{Tenant: tenant, Operation: operation, ID: "a"})
			}
		}
		h.Advance(retention)
		left := int64(len(scopes) * len(scopes))
		count := func(q storage.SweepQuery, want int) {
			h.Helper()
			q.Limit, q.DryRun = 1000, true
			expect(h, fmt.Sprintf("counted by %+v", q), h.sweep(q).Records, int64(want))
			q.DryRun = false
			expect(h, fmt.Sprintf("swept by %+v", q), h.sweepOut(q), int64(want))
			left -= int64(want)
			expect(h, "left", h.sweep(dryRun(0)).Records, left)
		}
		count(storage.SweepQuery{Tenant: "nobody"}, 0)
		count(storage.SweepQuery{Tenant: "a", Operation: "a"}, 1)
		count(storage.SweepQuery{Tenant: "a"}, len(scopes)-1)
		count(storage.SweepQuery{Operation: "a"}, len(scopes)-1)
		count(storage.SweepQuery{Tenant: "a%"}, len(scopes)-1)
		count(storage.SweepQuery{Operation: "a:b"}, len(scopes)-2)
	}},
	{"a key begun anew after its expiry is not swept by what it was", func(h *hands) {
		keys := keysOf(6)
		for _, key := range keys {
			h.completed(key)
		}
		h.Advance(2 * retention)
		h.granted(keys[0])
		h.completed(keys[1])
		h.want(lifecycle.Settled, fails(keys[2], h.granted(keys[2]), oncekeeper.SettledRetryable))
		h.want(lifecycle.Settled, fails(keys[3], h.granted(keys[3]), oncekeeper.SettledUnknown))
		expect(h, "counted", h.sweep(dryRun(0)).Records, 2)
		expect(h, "swept", h.sweepOut(grace(0)), 2)
		h.read(keys...)
		h.list(listAll)
	}},
	{"what changes between being found and being deleted is not swept", func(h *hands) {
		if h.BeforeDelete == nil {
			h.Log("this store cannot be stopped between finding and deleting: see the concurrent sweeps")
			return
		}
		keys := keysOf(7)
		for _, key := range keys[:4] {
			h.completed(key)
		}
		h.Advance(2 * retention)
		completing := h.granted(keys[4])
		h.granted(keys[5]) // runs on
		h.BeforeDelete(func() {
			h.granted(keys[0])
			h.completed(keys[1])
			h.want(lifecycle.Settled, fails(keys[2], h.granted(keys[2]), oncekeeper.SettledRetryable))
			h.want(lifecycle.Settled, completes(keys[4], completing))
			h.granted(keys[6])
		})
		expect(h, "swept", h.sweep(grace(0)).Records, 1)
		h.read(keys...)
		for i, want := range []lifecycle.Verdict{
			0: lifecycle.InProgress, 1: lifecycle.Replayed, 4: lifecycle.Replayed, 5: lifecycle.InProgress, 6: lifecycle.InProgress,
		} {
			if i != 2 && i != 3 {
				h.want(want, h.begins(keys[i]))
			}
		}
	}},
	{"what expires anew between being found and being deleted is left its grace", func(h *hands) {
		if h.BeforeDelete == nil {
			h.Log("this store cannot be stopped between finding and deleting")
			return
		}
		key := keyOf("k")
		h.completed(key)
		h.Advance(2 * retention)
		h.BeforeDelete(func() {
			h.completed(key)
			h.Advance(retention)
		})
		expect(h, "swept", h.sweep(grace(retention/2)).Records, 0)
		expect(h, "left", h.sweep(dryRun(0)).Records, 1)
	}},
	{"two sweeps at once count nothing twice", func(h *hands) {
		keys := keysOf(300)
		for _, key := range keys {
			h.completed(key)
		}
		h.Advance(retention)
		var sum atomic.Int64
		h.together(4, func(one *hands, _ int) { sum.Add(one.sweepOut(storage.SweepQuery{Limit: 7})) })
		expect(h, "swept", sum.Load(), int64(len(keys)))
		expect(h, "left", h.sweep(dryRun(0)), storage.Swept{})
	}},
	{"what is begun while it is swept stands", func(h *hands) {
		keys := keysOf(300)
		for _, key := range keys {
			h.completed(key)
		}
		h.Advance(retention)
		h.together(5, func(one *hands, i int) {
			if i < 2 {
				one.sweepOut(storage.SweepQuery{Limit: 5 + 100*i})
				return
			}
			for _, key := range keys[100*(i-2) : 100*(i-1)] {
				one.mirror[key] = h.mirror[key]
				one.granted(key)
				one.read(key)
			}
		})
		for _, rec := range h.list(listAll) {
			expect(h, "state", rec.State, oncekeeper.StoredPending)
		}
	}},
	{"a swept key begins again with a greater token, and fences its past", func(h *hands) {
		key := keyOf("k")
		first := h.completed(key)
		h.Advance(retention)
		expect(h, "swept", h.sweepOut(grace(0)), 1)
		h.want(lifecycle.NotFound, completes(key, first))
		h.absent(key)
		if second := h.granted(key); second <= first {
			h.Fatalf("token after a sweep: got %d, want more than %d", second, first)
		}
		h.want(lifecycle.Fenced, completes(key, first))
	}},
	{"a sweep whose context has ended says so, or how much it did", func(h *hands) {
		for _, key := range keysOf(5) {
			h.completed(key)
		}
		h.Advance(retention)
		sum := int64(0)
		for _, end := range ended() {
			swept, err := h.Store.Sweep(end.ctx, grace(0))
			if err != nil && !errors.Is(err, end.cause) {
				h.Fatalf("got error %v, want %v", err, end.cause)
			}
			sum += swept.Records
		}
		expect(h, "swept in all", sum+h.sweepOut(grace(0)), 5)
	}},
}
