package storagetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

var closing = []check{
	{"a closed store refuses every call as unavailable", func(h *hands) {
		token := h.granted(keyOf("k"))
		if err := h.Store.Close(); err != nil {
			h.Fatalf("close: %v", err)
		}
		for i, res := range h.Store.Apply(background, h.begins(keyOf("other")), completes(keyOf("k"), token)) {
			h.unavailable(fmt.Sprint("apply, command ", i), res.Err)
			h.unavailable(fmt.Sprint("apply, refusal of ", i), res.Refusal())
		}
		_, err := h.Store.Read(background, keyOf("k"))
		h.unavailable("read", err)
		_, err = h.Store.List(background, listAll)
		h.unavailable("list", err)
		_, err = h.Store.List(background, storage.ListQuery{Order: storage.ByAge, Limit: 1})
		h.unavailable("list by age", err)
		_, err = h.Store.Sweep(background, grace(0))
		h.unavailable("sweep", err)
		h.unavailable("ping", h.Store.Ping(background))
	}},
	{"closing twice does no harm", func(h *hands) {
		h.granted(keyOf("k"))
		if err := h.Store.Close(); err != nil {
			h.Fatalf("close: %v", err)
		}
		if err := h.Store.Close(); err != nil && !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
			h.Fatalf("close again: %v", err)
		}
	}},
	{"what was taken before the close is judged, and stands; the rest is refused", func(h *hands) {
		keys := keysOf(64)
		results := make([]storage.Result, len(keys))
		var all, begun sync.WaitGroup
		begun.Add(8)
		for i := range 8 {
			all.Go(func() {
				begun.Done()
				for n := i; n < len(keys); n += 8 {
					results[n] = h.Store.Apply(background, lifecycle.Begin{
						Key: keys[n], Grant: oncekeeper.Grant{Lease: lease, Retention: retention, UnsettledRetention: unsettled},
					})[0]
				}
			})
		}
		begun.Wait()
		if err := h.Store.Close(); err != nil {
			h.Fatalf("close: %v", err)
		}
		all.Wait()
		var kept []oncekeeper.Key
		for n, res := range results {
			if res.Err != nil {
				h.unavailable("apply while closing", res.Err)
				continue
			}
			expect(h, "verdict", res.Verdict, lifecycle.Granted)
			h.mirror[keys[n]] = res.Record
			kept = append(kept, keys[n])
		}
		if h.reopen() {
			h.read(kept...)
		}
	}},
}

// unavailable expects err to be ErrStoreUnavailable.
func (h *hands) unavailable(what string, err error) {
	h.Helper()
	if !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		h.Fatalf("%s on a closed store: got error %v, want ErrStoreUnavailable", what, err)
	}
}
