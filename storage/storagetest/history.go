package storagetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
	"github.com/oncekeeper/oncekeeper/storage"
)

// event is a command and its result, as one of many callers saw it.
type event struct {
	cmd lifecycle.Command
	res storage.Result
}

// wander makes random calls on keys, as caller number me, and gives its history.
// Sometimes it moves the clock, or sweeps.
func wander(h *hands, keys []oncekeeper.Key, random *rand.Rand, me int) []event {
	var past []event
	known := map[oncekeeper.Key]*oncekeeper.KeyRecord{}
	for n := range 40 {
		switch random.IntN(30) {
		case 0:
			h.Advance([]time.Duration{time.Second, lease, retention}[random.IntN(3)])
		case 1:
			h.sweepOut(storage.SweepQuery{Tenant: keys[0].Tenant, Limit: 2})
		}
		var cmds []lifecycle.Command
		for range 1 + random.IntN(3) {
			key := keys[random.IntN(len(keys))]
			cmds = append(cmds, h.wanders(key, known[key], random, fmt.Sprintf("%d-%d", me, n)))
		}
		results := h.Store.Apply(background, cmds...)
		for i, res := range results {
			if res.Err != nil {
				h.Fatalf("%T%+v: %v", cmds[i], cmds[i], res.Err)
			}
			past = append(past, event{cmds[i], res})
			key := cmds[i].Target()
			if before := known[key]; res.Verdict != lifecycle.NotFound && before != nil && inOrder(res.Record, before) < 0 {
				h.Fatalf("%T%+v: the record went back from %+v to %+v", cmds[i], cmds[i], before, res.Record)
			}
			if res.Verdict != lifecycle.NotFound {
				known[key] = res.Record
			}
		}
		h.last = momentsOf(h, cmds, results, h.last)
	}
	return past
}

func (h *hands) wanders(key oncekeeper.Key, known *oncekeeper.KeyRecord, random *rand.Rand, call string) lifecycle.Command {
	if known == nil || random.IntN(2) == 0 {
		begin := h.begins(key)
		begin.CallID = call
		begin.Grant.MaxAttempts = int32(random.IntN(3) * 4)
		begin.Grant.UnsettledRetention = time.Second
		return begin
	}
	switch random.IntN(8) {
	case 0:
		return lifecycle.Renew{Key: key, Token: known.Token, Checkpoint: []byte(call)}
	case 1:
		return lifecycle.Resolve{Key: key, Etag: known.Etag(), Force: true}
	case 2:
		return lifecycle.Delete{Key: key, Etag: known.Etag(), Force: true}
	case 3:
		return completes(key, known.Token)
	default:
		settle := fails(key, known.Token, []oncekeeper.Settlement{
			oncekeeper.SettledRetryable, oncekeeper.SettledUnknown,
		}[random.IntN(2)])
		settle.NotRun = settle.As == oncekeeper.SettledRetryable && random.IntN(2) == 0
		return settle
	}
}

// inOrder says which of two versions of one key came first: tokens never shrink
// and revisions grow under one token.
func inOrder(a, b *oncekeeper.KeyRecord) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Revision, b.Revision))
}

// explained expects that the events of many callers are what lifecycle makes of
// them in some order. Each version of a record names its place in that order by
// its token and revision; so it is enough that each version has one content, that
// one command made it of the version before, and that every other command left
// alone the version that it was answered from.
func explained(h *hands, events []event) {
	h.Helper()
	byKey := map[oncekeeper.Key][]event{}
	for _, e := range events {
		byKey[e.cmd.Target()] = append(byKey[e.cmd.Target()], e)
	}
	for key, events := range byKey {
		versions := versionsOf(h, events)
		makers := make([]int, len(versions))
		for _, e := range events {
			if e.res.Verdict == lifecycle.NotFound {
				continue
			}
			at, _ := slices.BinarySearchFunc(versions, e.res.Record, inOrder)
			if after, verdict := lifecycle.Apply(e.res.Record, e.cmd, e.res.Now); after == e.res.Record && verdict == e.res.Verdict {
				continue
			}
			var before *oncekeeper.KeyRecord
			if at > 0 {
				before = versions[at-1]
			}
			after, verdict := lifecycle.Apply(before, e.cmd, e.res.Now)
			if verdict != e.res.Verdict || lifecycletest.Diff(after, e.res.Record) != "" {
				h.Fatalf("key %q: %T%+v at %d: got %v and\n%+v;\nof the version before, %+v,\nlifecycle makes %v and\n%+v",
					key, e.cmd, e.cmd, e.res.Now, e.res.Verdict, e.res.Record, before, verdict, after)
			}
			if makers[at]++; makers[at] > 1 {
				h.Fatalf("key %q: %d commands made version %+v", key, makers[at], e.res.Record)
			}
		}
	}
}

// versionsOf gives the versions that events show, in their order.
func versionsOf(h *hands, events []event) []*oncekeeper.KeyRecord {
	h.Helper()
	var versions []*oncekeeper.KeyRecord
	for _, e := range events {
		if e.res.Verdict == lifecycle.NotFound {
			continue
		}
		at, seen := slices.BinarySearchFunc(versions, e.res.Record, inOrder)
		if !seen {
			versions = slices.Insert(versions, at, e.res.Record)
		} else if difference := lifecycletest.Diff(versions[at], e.res.Record); difference != "" {
			h.Fatalf("etag %s names two versions:\n%s", e.res.Record.Etag(), difference)
		}
	}
	return versions
}
