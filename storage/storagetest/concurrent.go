package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

const callers = 16

// atOnce has callers make a call each, at once, and gives what each got.
func atOnce(h *hands, call func(i int) (storage.Store, lifecycle.Command)) []storage.Result {
	h.Helper()
	results := make([]storage.Result, callers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range callers {
		store, cmd := call(i)
		all.Go(func() {
			<-start
			results[i] = store.Apply(background, cmd)[0]
		})
	}
	close(start)
	all.Wait()
	for _, res := range results {
		if res.Err != nil {
			h.Fatalf("one of %d at once: %v", callers, res.Err)
		}
	}
	return results
}

func verdicts(results []storage.Result) map[lifecycle.Verdict]int {
	count := map[lifecycle.Verdict]int{}
	for _, res := range results {
		count[res.Verdict]++
	}
	return count
}

func (h *hands) beginsAtOnce(key oncekeeper.Key) []storage.Result {
	h.Helper()
	return atOnce(h, func(int) (storage.Store, lifecycle.Command) { return h.Store, h.begins(key) })
}

func (h *hands) oneGrant(results []storage.Result) {
	h.Helper()
	count := verdicts(results)
	if count[lifecycle.Granted] != 1 || count[lifecycle.InProgress] != callers-1 {
		h.Fatalf("begun %d times at once: got %v, want one granted and the others in progress", callers, count)
	}
}

var concurrent = []check{
	{"of many begins at once one is granted", func(h *hands) {
		for i := range 20 {
			h.oneGrant(h.beginsAtOnce(keyOf(fmt.Sprint(i))))
		}
	}},
	{"of many takeovers at once one is granted", func(h *hands) {
		for i := range 20 {
			key := keyOf(fmt.Sprint(i))
			h.granted(key)
			h.Advance(lease)
			h.oneGrant(h.beginsAtOnce(key))
		}
	}},
	{"of many begins at once on a key that is gone and being swept one is granted", func(h *hands) {
		for i := range 20 {
			key := keyOf(fmt.Sprint(i))
			h.completed(key)
			h.Advance(retention)
			var sweeper sync.WaitGroup
			sweeper.Go(func() { _, _ = h.Store.Sweep(background, grace(0)) })
			h.oneGrant(h.beginsAtOnce(key))
			sweeper.Wait()
		}
	}},
	{"one call made many times at once is given one grant", func(h *hands) {
		begin := h.begins(keyOf("k"))
		results := atOnce(h, func(int) (storage.Store, lifecycle.Command) { return h.Store, begin })
		for _, res := range results {
			expect(h, "verdict", res.Verdict, lifecycle.Granted)
			expect(h, "token", res.Record.Token, results[0].Record.Token)
			expect(h, "etag", res.Record.Etag(), results[0].Record.Etag())
		}
	}},
	{"one settlement made many times at once is settled once", func(h *hands) {
		key := keyOf("k")
		token := h.granted(key)
		results := atOnce(h, func(int) (storage.Store, lifecycle.Command) { return h.Store, completes(key, token) })
		for _, res := range results {
			expect(h, "verdict", res.Verdict, lifecycle.Settled)
			expect(h, "etag", res.Record.Etag(), results[0].Record.Etag())
		}
	}},
	{"a late completion and takeovers at once end in the one or in one of the others", func(h *hands) {
		for i := range 40 {
			key := keyOf(fmt.Sprint(i))
			token := h.granted(key)
			h.Advance(lease)
			count := verdicts(atOnce(h, func(i int) (storage.Store, lifecycle.Command) {
				if i == 0 {
					return h.Store, completes(key, token)
				}
				return h.Store, h.begins(key)
			}))
			completed := count[lifecycle.Settled] == 1 && count[lifecycle.Replayed] == callers-1
			takenOver := count[lifecycle.Fenced] == 1 && count[lifecycle.Granted] == 1 && count[lifecycle.InProgress] == callers-2
			if !completed && !takenOver {
				h.Fatalf("got %v, want it settled and replayed, or fenced and granted once", count)
			}
		}
	}},
	{"calls on the same keys in any order all end", func(h *hands) {
		keys := keysOf(40)
		granted := make([]int, callers)
		h.together(callers, func(one *hands, i int) {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 10 {
				var cmds []lifecycle.Command
				for _, n := range random.Perm(len(keys)) {
					begin := one.begins(keys[n])
					begin.CallID = fmt.Sprintf("%d-%s", i, begin.CallID)
					cmds = append(cmds, begin)
				}
				for _, res := range h.Store.Apply(background, cmds...) {
					if res.Err != nil {
						one.Fatalf("apply: %v", res.Err)
					}
					if res.Verdict == lifecycle.Granted {
						granted[i]++
					}
				}
			}
		})
		sum := 0
		for _, n := range granted {
			sum += n
		}
		expect(h, "grants", sum, len(keys))
	}},
	{"what many do at once is what lifecycle makes of it in some order", func(h *hands) {
		for round := range 5 {
			keys := keysOf(3)
			for i := range keys {
				keys[i].Tenant = fmt.Sprint("round ", round)
			}
			histories := make([][]event, callers)
			h.together(callers, func(one *hands, i int) {
				histories[i] = wander(one, keys, rand.New(rand.NewPCG(uint64(round), uint64(i))), i)
			})
			explained(h, slices.Concat(histories...))
		}
	}},
}
