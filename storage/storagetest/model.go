package storagetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
	"github.com/oncekeeper/oncekeeper/storage"
)

// RunModel plays random histories and holds every answer against what lifecycle
// alone makes of them. A failure prints the seed, and the shortest history that
// rapid finds to fail. -rapid.checks and -rapid.seed change what is played.
func RunModel(t *testing.T, open Open) {
	t.Run("model", func(t *testing.T) { model(t, open) })
}

func model(t testing.TB, open Open) {
	t.Helper()
	o := open(t)
	checks := o.Sequences
	if checks == 0 {
		checks = 2000
	}
	var tenants atomic.Int64
	lifecycletest.Check(t, checks, func(t *rapid.T) {
		// Each history has tenants of its own, so that all can share a store.
		own := fmt.Sprintf("history-%d", tenants.Add(1))
		h := newHistory(t, &o, own, own+":b", own+"b")
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			h.step()
		}
		h.readAll()
		h.list(storage.ByKey)
		h.list(storage.ByAge)
		h.clear()
	})
}

// clear leaves nothing of a history, so that the next does not wade through it.
func (h *history) clear() {
	var cmds []lifecycle.Command
	for _, rec := range h.mirror {
		if rec != nil {
			cmds = append(cmds, lifecycle.Delete{Key: rec.Key, Etag: rec.Etag(), Force: true})
		}
	}
	for i, res := range h.opened.Store.Apply(background, cmds...) {
		h.mirror.judged(h, cmds[i], res)
	}
	h.opened.Advance(2 * time.Hour)
	for _, tenant := range h.tenants {
		h.sweepBy(storage.SweepQuery{Tenant: tenant, Limit: len(h.keys)})
	}
}

// history is a random one in the making.
type history struct {
	*rapid.T
	opened  *Opened
	mirror  mirror
	past    map[oncekeeper.Key]*lifecycletest.Past
	keys    []oncekeeper.Key
	tenants []string
	now     oncekeeper.Instant
	swept   map[*oncekeeper.KeyRecord]fate
}

// fate is whether a record that is gone is still stored. A clock that flows may
// leave it open, where it passes the bound of a sweep meanwhile.
type fate uint8

const (
	stored fate = iota
	open
	deleted
)

func newHistory(t *rapid.T, o *Opened, tenants ...string) *history {
	h := &history{
		T: t, opened: o, tenants: tenants, mirror: mirror{},
		past: map[oncekeeper.Key]*lifecycletest.Past{}, swept: map[*oncekeeper.KeyRecord]fate{},
	}
	for _, tenant := range tenants {
		for _, id := range []string{"k", "K"} {
			key := oncekeeper.Key{Tenant: tenant, Operation: "op", ID: id}
			h.keys = append(h.keys, key)
			h.past[key] = &lifecycletest.Past{}
		}
	}
	h.readAll()
	return h
}

func (h *history) step() {
	switch rapid.SampledFrom([]string{
		"apply", "apply", "apply", "apply", "apply", "apply", "wait", "wait", "read", "sweep", "list", "other",
	}).Draw(h.T, "step") {
	case "wait":
		var ends []oncekeeper.Instant
		for _, key := range h.keys {
			ends = append(ends, lifecycletest.Ends(h.mirror[key])...)
		}
		d := lifecycletest.DrawStep(h.T, h.now, ends...)
		h.opened.Advance(d)
	case "read":
		h.readAll()
	case "sweep":
		h.sweep()
	case "list":
		h.list(rapid.SampledFrom([]storage.Order{storage.ByKey, storage.ByAge}).Draw(h.T, "order"))
	case "other":
		if h.opened.Reopen != nil && rapid.IntRange(0, 19).Draw(h.T, "reopen") == 0 {
			h.opened.Store = h.opened.Reopen()
		}
	default:
		h.apply()
	}
}

// apply draws a call of one or several commands, the same key among them twice.
func (h *history) apply() {
	var cmds []lifecycle.Command
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3, 6}).Draw(h.T, "commands") {
		key := rapid.SampledFrom(h.keys).Draw(h.T, "key")
		cmds = append(cmds, lifecycletest.DrawCommand(h.T, key, *h.past[key]))
	}
	results := h.opened.Store.Apply(background, cmds...)
	for i, res := range results {
		h.Logf("%T%+v -> %v at %d", cmds[i], cmds[i], res.Verdict, res.Now)
		h.mirror.judged(h, cmds[i], res)
		h.past[cmds[i].Target()].See(h.mirror[cmds[i].Target()])
	}
	h.now = momentsOf(h, cmds, results, h.now)
}

func (h *history) clock(now oncekeeper.Instant) {
	h.Helper()
	if now < h.now {
		h.Fatalf("the store's clock went back from %d to %d", h.now, now)
	}
	h.now = now
}

// readAll reads every key, and gives the time.
func (h *history) readAll() oncekeeper.Instant {
	h.Helper()
	got, err := h.opened.Store.Read(background, h.keys...)
	if err != nil {
		h.Fatalf("read: %v", err)
	}
	h.clock(got.Now)
	h.mirror.read(h, h.keys, got)
	return got.Now
}

func (h *history) sweep() {
	h.sweepBy(storage.SweepQuery{
		Tenant: rapid.SampledFrom(h.tenants).Draw(h.T, "tenant"),
		Grace:  rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(h.T, "grace"),
		Limit:  rapid.IntRange(1, 3).Draw(h.T, "limit"),
		DryRun: rapid.Bool().Draw(h.T, "dry run"),
	})
}

// sweepBy sweeps one tenant, and expects as many deleted as are gone for q's
// grace.
func (h *history) sweepBy(q storage.SweepQuery) {
	h.Helper()
	before := h.readAll()
	var count int64
	for {
		swept, err := h.opened.Store.Sweep(background, q)
		if err != nil {
			h.Fatalf("sweep %+v: %v", q, err)
		}
		if count += swept.Records; swept.Records > int64(q.Limit) || swept.More && swept.Records == 0 {
			h.Fatalf("sweep %+v: got %+v", q, swept)
		}
		if !swept.More || q.DryRun {
			break
		}
	}
	after := h.readAll()
	var least, most int64
	for key, rec := range h.mirror {
		if key.Tenant != q.Tenant || rec == nil || rec.Expires == 0 {
			continue
		}
		surely, maybe := rec.Expires.Add(q.Grace) < before, rec.Expires.Add(q.Grace) <= after
		if surely && h.swept[rec] == stored {
			least++
		}
		if maybe && h.swept[rec] != deleted {
			most++
		}
		switch {
		case q.DryRun:
		case surely:
			h.swept[rec] = deleted
		case maybe:
			h.swept[rec] = max(h.swept[rec], open)
		}
	}
	if q.DryRun {
		least, most = min(least, int64(q.Limit)), min(most, int64(q.Limit))
	}
	if count < least || count > most {
		h.Fatalf("sweep %+v at %d to %d: got %d records, want %d to %d", q, before, after, count, least, most)
	}
}

// list lists each tenant, and expects what is not gone.
func (h *history) list(order storage.Order) {
	h.Helper()
	for _, tenant := range h.tenants {
		q := storage.ListQuery{Tenant: tenant, Order: order, Limit: len(h.keys)}
		page, err := h.opened.Store.List(background, q)
		if err != nil {
			h.Fatalf("list %+v: %v", q, err)
		}
		h.clock(page.Now)
		h.mirror.listed(h, q, page.Now, page.Records)
	}
}
