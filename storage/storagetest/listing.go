package storagetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

var listAll = storage.ListQuery{Limit: 1000}

// list gives all pages of q, and expects what the mirror has, in q's order.
func (h *hands) list(q storage.ListQuery) []*oncekeeper.KeyRecord {
	h.Helper()
	var got []*oncekeeper.KeyRecord
	for page := 0; ; page++ {
		p, err := h.Store.List(background, q)
		if err != nil {
			h.Fatalf("list %+v: %v", q, err)
		}
		if h.seen(p.Now); len(p.Records) > q.Limit || page > 10_000 {
			h.Fatalf("list %+v: page %d has %d records", q, page, len(p.Records))
		}
		got = append(got, p.Records...)
		if p.Next == "" {
			break
		}
		q.After = p.Next
	}
	h.mirror.listed(h, q, h.last, got)
	return got
}

// scopes are parts that must not be taken for each other, nor for a pattern.
var scopes = []string{"a", "ab", "a:b", "a/", "a#", "a%", "a_", "A", "b"}

// populated brings a record into every scope, in several states.
func populated(h *hands) {
	h.Helper()
	everyState(h)
	for i, tenant := range scopes {
		for j, operation := range scopes {
			key := oncekeeper.Key{Tenant: tenant, Operation: operation, ID: scopes[(i+j)%len(scopes)]}
			begin := h.begins(key)
			begin.Grant.Lease = time.Duration(60+13*((i*7+j*3)%11)) * time.Second
			token := h.want(lifecycle.Granted, begin).Record.Token
			switch (i + j) % 4 {
			case 0:
				h.want(lifecycle.Settled, completes(key, token))
			case 1:
				h.want(lifecycle.Settled, fails(key, token, oncekeeper.SettledUnknown))
			}
		}
	}
}

// queries gives a listing by every filter.
func queries() map[string]storage.ListQuery {
	all := map[string]storage.ListQuery{
		"everything": {}, "none": {Tenant: "nobody"}, "no prefix": {IDPrefix: "zz"},
		"age, everything": {Order: storage.ByAge}, "age, none": {Order: storage.ByAge, Tenant: "nobody"},
		"several states":      {States: []oncekeeper.State{oncekeeper.StateCompleted, oncekeeper.StateAbandoned}},
		"age, several states": {Order: storage.ByAge, States: []oncekeeper.State{oncekeeper.StatePending, oncekeeper.StateUnresolved}},
	}
	for _, part := range scopes {
		all["tenant "+part] = storage.ListQuery{Tenant: part}
		all["operation "+part] = storage.ListQuery{Operation: part}
		all["prefix "+part] = storage.ListQuery{IDPrefix: part}
		all["tenant and prefix "+part] = storage.ListQuery{Tenant: part, IDPrefix: part}
		all["scope and prefix a, "+part] = storage.ListQuery{Tenant: part, Operation: "a", IDPrefix: "a"}
		all["age, tenant "+part] = storage.ListQuery{Order: storage.ByAge, Tenant: part}
		all["age, operation "+part] = storage.ListQuery{Order: storage.ByAge, Operation: part, IDPrefix: "a"}
	}
	for state := oncekeeper.StatePending; state <= oncekeeper.StateFailed; state++ {
		all["state "+state.String()] = storage.ListQuery{States: []oncekeeper.State{state}}
		if state <= oncekeeper.StateUnresolved {
			all["age, state "+state.String()] = storage.ListQuery{Order: storage.ByAge, States: []oncekeeper.State{state}}
		}
	}
	return all
}

// readings are what a cursor's text may be read as.
func readings(text string) []string {
	all := []string{text}
	for _, enc := range []*base64.Encoding{base64.RawURLEncoding, base64.StdEncoding} {
		if raw, err := enc.DecodeString(text); err == nil {
			all = append(all, string(raw))
		}
	}
	return all
}

var listing = []check{
	{"an empty store lists nothing", func(h *hands) {
		expect(h, "records", len(h.list(listAll)), 0)
		expect(h, "records by age", len(h.list(storage.ListQuery{Order: storage.ByAge, Limit: 1})), 0)
	}},
	{"a listing has what its query selects, in its order, whatever its pages", func(h *hands) {
		populated(h)
		for _, q := range queries() {
			for _, q.Limit = range []int{1, 3, 1000} {
				h.list(q)
			}
		}
	}},
	{"a listing is by key as bytes", func(h *hands) {
		for _, key := range OddKeys() {
			h.granted(key)
		}
		for _, limit := range []int{1, 7, 1000} {
			h.list(storage.ListQuery{Limit: limit})
		}
		for _, prefix := range []string{"x", "a", "\\", "%", "_", "e", "\u00e9", "\U0010ffff", strings.Repeat("x", oncekeeper.MaxIDBytes)} {
			h.list(storage.ListQuery{IDPrefix: prefix, Limit: 2})
			h.list(storage.ListQuery{Tenant: "shop", Operation: keyOf("").Operation, IDPrefix: prefix, Limit: 2})
		}
	}},
	{"a listing follows the clock", func(h *hands) {
		populated(h)
		for _, d := range []time.Duration{lease, lease, retention, unsettled} {
			h.Advance(d)
			h.list(listAll)
			h.list(storage.ListQuery{Order: storage.ByAge, Limit: 5})
		}
		expect(h, "records that never expire", len(h.list(listAll)), 1)
	}},
	{"a listing by age follows leases that move", func(h *hands) {
		q := storage.ListQuery{Order: storage.ByAge, Limit: 2}
		keys := keysOf(5)
		var tokens []int64
		for _, key := range keys {
			tokens = append(tokens, h.granted(key))
		}
		for i, token := range tokens {
			h.want(lifecycle.Renewed, lifecycle.Renew{Key: keys[i], Token: token, Lease: time.Duration(10-i) * lease})
		}
		expect(h, "the first", h.list(q)[0].Key, keys[4])
		h.want(lifecycle.Settled, fails(keys[0], tokens[0], oncekeeper.SettledUnknown))
		expect(h, "the first", h.list(q)[0].Key, keys[0])
		h.want(lifecycle.Settled, completes(keys[4], tokens[4]))
		expect(h, "pending", len(h.list(q)), 4)
	}},
	{"a listing is bounded by creation, the start included and the end not", func(h *hands) {
		keys := keysOf(4)
		for _, key := range keys {
			h.granted(key)
			h.Advance(time.Second)
		}
		second, fourth := h.mirror[keys[1]].Created, h.mirror[keys[3]].Created
		q := storage.ListQuery{CreatedFrom: second, CreatedTo: fourth, Limit: 1}
		expect(h, "records", fmt.Sprint(keysIn(h.list(q))), fmt.Sprint(keys[1:3]))
		expect(h, "records from", len(h.list(storage.ListQuery{CreatedFrom: second, Limit: 10})), 3)
		expect(h, "records to", len(h.list(storage.ListQuery{CreatedTo: second, Limit: 10})), 1)
		expect(h, "records by age", len(h.list(storage.ListQuery{CreatedFrom: second, Limit: 10, Order: storage.ByAge})), 3)
	}},
	{"what stands while it is listed is listed once, whatever comes and goes beside it", func(h *hands) {
		keys := keysOf(20)
		for i := 0; i < len(keys); i += 2 {
			h.granted(keys[i])
		}
		q := storage.ListQuery{Limit: 3}
		times := map[oncekeeper.Key]int{}
		for i := 1; ; i += 4 {
			p, err := h.Store.List(background, q)
			if err != nil {
				h.Fatalf("list: %v", err)
			}
			for _, rec := range p.Records {
				times[rec.Key]++
			}
			if q.After = p.Next; p.Next == "" {
				break
			}
			h.apply(h.begins(keys[i%len(keys)]))
		}
		for i := 0; i < len(keys); i += 2 {
			expect(h, "times that "+keys[i].ID+" was listed", times[keys[i]], 1)
		}
	}},
	{"a cursor of one tenant's listing tells nothing of another's keys", func(h *hands) {
		// Lease by lease, and all at one moment, others' keys before it and behind.
		for i, tenant := range []string{"tenant-m", "tenant-b", "tenant-m", "tenant-z", "tenant-m", "tenant-a"} {
			for _, same := range []bool{true, false} {
				key := oncekeeper.Key{Tenant: tenant, Operation: fmt.Sprint("operation-of-", tenant), ID: fmt.Sprint(same, i)}
				begin := h.begins(key)
				if !same {
					begin.Grant.Lease += time.Duration(i) * time.Second
				}
				h.want(lifecycle.Granted, begin)
			}
		}
		for _, order := range []storage.Order{storage.ByKey, storage.ByAge} {
			q := storage.ListQuery{Tenant: "tenant-m", Limit: 1, Order: order}
			for page := 0; page == 0 || q.After != ""; page++ {
				p, err := h.Store.List(background, q)
				if err != nil || page > 100 {
					h.Fatalf("page %d: %v", page, err)
				}
				q.After = p.Next
				for _, text := range readings(p.Next) {
					for _, other := range []string{"tenant-a", "tenant-b", "tenant-z"} {
						if strings.Contains(text, other) {
							h.Fatalf("the cursor behind page %d, order %d, tells of %s: %q", page, order, other, text)
						}
					}
				}
			}
			q.After = ""
			expect(h, "records", len(h.list(q)), 6)
		}
	}},
	{"a cursor that no listing gave is an invalid request", func(h *hands) {
		populated(h)
		for _, after := range []string{"not a cursor", "!", "\xff\xfe", "%00", strings.Repeat("!", 5000)} {
			for _, order := range []storage.Order{storage.ByKey, storage.ByAge} {
				_, err := h.Store.List(background, storage.ListQuery{Limit: 10, After: after, Order: order})
				if !errors.Is(err, oncekeeper.ErrInvalidRequest) {
					h.Fatalf("cursor %.20q, order %d: got error %v, want ErrInvalidRequest", after, order, err)
				}
			}
		}
	}},
}
