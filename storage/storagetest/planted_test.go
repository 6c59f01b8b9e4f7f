package storagetest

import (
	"context"
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

type (
	record  = oncekeeper.KeyRecord
	command = lifecycle.Command
	verdict = lifecycle.Verdict
	instant = oncekeeper.Instant
)

// flaw is a fault planted in the reference store.
type flaw struct {
	// apply stands in for what the reference does with the lock held.
	apply func(r *reference, ctx context.Context, cmds []command) []storage.Result
	// readsGone: a read shows what has expired. sweepsBlind: a sweep deletes what
	// it found, whatever became of it. sweepsPrefix: a sweep of "a" takes "ab".
	// pagesSkip: a page that is not the last misses its first record. forgets:
	// nothing survives the store.
	readsGone, sweepsBlind, sweepsPrefix, pagesSkip, forgets bool
}

// each judges the commands one by one by what stands in for lifecycle.
func each(apply func(r *reference, rec *record, cmd command, now instant) (*record, verdict)) flaw {
	return flaw{apply: func(r *reference, ctx context.Context, cmds []command) (results []storage.Result) {
		for _, cmd := range cmds {
			results = append(results, r.judgeBy(ctx, cmd, func(rec *record, cmd command, now instant) (*record, verdict) {
				return apply(r, rec, cmd, now)
			}))
		}
		return results
	}}
}

// beginsOn judges a Begin by what another makes of the stored record.
func beginsOn(other func(rec *record)) flaw {
	return each(func(_ *reference, rec *record, cmd command, now instant) (*record, verdict) {
		if _, begins := cmd.(lifecycle.Begin); !begins || rec == nil || lifecycle.Gone(rec, now) {
			return lifecycle.Apply(rec, cmd, now)
		}
		seen := *rec
		other(&seen)
		after, v := lifecycle.Apply(&seen, cmd, now)
		if after == &seen {
			after = rec
		}
		return after, v
	})
}

var planted = map[string]struct {
	flaw flaw
	// history: a random one is to find it too.
	history bool
}{
	"a live lease is granted":    {history: true, flaw: beginsOn(func(rec *record) { rec.LeaseEnd = 0 })},
	"the fingerprint is ignored": {history: true, flaw: beginsOn(func(rec *record) { rec.AnyFingerprint = true })},
	"the call id is ignored":     {history: true, flaw: beginsOn(func(rec *record) { rec.CallID = "" })},
	"takeover is not sticky":     {history: true, flaw: beginsOn(func(rec *record) { rec.Takeover = false })},
	"the hold is ignored":        {history: true, flaw: beginsOn(func(rec *record) { rec.Granted.Hold = false })},
	"a grant forgets the past":   {history: true, flaw: beginsOn(func(rec *record) { rec.History = nil })},

	"a late holder is not fenced": {history: true, flaw: each(func(_ *reference, rec *record, cmd command, now instant) (*record, verdict) {
		if c, settles := cmd.(lifecycle.Settle); settles && rec != nil && c.Token < rec.Token {
			c.Token = rec.Token
			cmd = c
		}
		return lifecycle.Apply(rec, cmd, now)
	})},
	"tokens start again after a sweep": {history: true, flaw: each(func(r *reference, rec *record, cmd command, now instant) (*record, verdict) {
		after, v := lifecycle.Apply(rec, cmd, now)
		if rec == nil && after != nil && r.data.seen[after.Key] {
			after.Token = 1
		}
		r.data.seen[cmd.Target()] = r.data.seen[cmd.Target()] || after != nil
		return after, v
	})},
	"a checkpoint is lost": {history: true, flaw: each(func(_ *reference, rec *record, cmd command, now instant) (*record, verdict) {
		if c, renews := cmd.(lifecycle.Renew); renews {
			c.Checkpoint = nil
			cmd = c
		}
		return lifecycle.Apply(rec, cmd, now)
	})},
	"keys are folded": {history: true, flaw: each(func(r *reference, rec *record, cmd command, now instant) (*record, verdict) {
		for key, other := range r.data.records {
			if rec == nil && strings.EqualFold(key.ID, cmd.Target().ID) && key.Tenant == cmd.Target().Tenant {
				rec = other
			}
		}
		return lifecycle.Apply(rec, cmd, now)
	})},

	"a batch is judged against one snapshot": {history: true, flaw: flaw{apply: func(r *reference, ctx context.Context, cmds []command) (results []storage.Result) {
		snapshot := maps.Clone(r.data.records)
		for _, cmd := range cmds {
			results = append(results, r.judgeBy(ctx, cmd, func(_ *record, cmd command, now instant) (*record, verdict) {
				return lifecycle.Apply(snapshot[cmd.Target()], cmd, now)
			}))
		}
		return results
	}}},
	"results come in another order": {history: true, flaw: flaw{apply: func(r *reference, ctx context.Context, cmds []command) (results []storage.Result) {
		for _, cmd := range cmds {
			results = append(results, r.judge(ctx, cmd))
		}
		slices.Reverse(results)
		return results
	}}},
	"a settlement is dropped with its context": {flaw: flaw{apply: func(r *reference, ctx context.Context, cmds []command) (results []storage.Result) {
		for _, cmd := range cmds {
			if ctx.Err() != nil {
				results = append(results, storage.Result{Now: r.now(), Err: context.Cause(ctx)})
				continue
			}
			results = append(results, r.judge(ctx, cmd))
		}
		return results
	}}},
	"a begin is applied although its context has ended": {flaw: flaw{apply: func(r *reference, _ context.Context, cmds []command) (results []storage.Result) {
		for _, cmd := range cmds {
			results = append(results, r.judge(background, cmd))
		}
		return results
	}}},
	"a judgement names another moment than its own": {history: true, flaw: flaw{apply: func(r *reference, ctx context.Context, cmds []command) (results []storage.Result) {
		for _, cmd := range cmds {
			res := r.judge(ctx, cmd)
			res.Now++
			results = append(results, res)
		}
		return results
	}}},

	"a read shows what is gone":                     {history: true, flaw: flaw{readsGone: true}},
	"a page skips a record":                         {flaw: flaw{pagesSkip: true}},
	"a sweep deletes what was retaken":              {flaw: flaw{sweepsBlind: true}},
	"a sweep of one tenant takes those it prefixes": {history: true, flaw: flaw{sweepsPrefix: true}},
	"a store opened again has forgotten":            {history: true, flaw: flaw{forgets: true}},
}

func TestTheSuiteFindsEveryPlantedFault(t *testing.T) {
	for name, plant := range planted {
		t.Run(name, func(t *testing.T) {
			var failed []string
			for _, p := range parts() {
				for _, c := range p.checks {
					if out := watch(t, func(t testing.TB) { c.on(t, openReference(plant.flaw), nil) }); out != "" {
						failed = append(failed, p.name+"/"+c.name)
					}
				}
			}
			if len(failed) == 0 {
				t.Fatal("no check of the suite fails")
			}
			t.Logf("%d checks fail, first: %s", len(failed), failed[0])
		})
	}
}

func TestAWatchedTestPassesWhereNothingIsPlanted(t *testing.T) {
	for _, p := range parts() {
		for _, c := range p.checks {
			if out := watch(t, func(t testing.TB) { c.on(t, openReference(flaw{}), nil) }); out != "" {
				t.Errorf("%s/%s: %s", p.name, c.name, out)
			}
		}
	}
	if out := watch(t, func(t testing.TB) { model(t, openReference(flaw{})) }); out != "" {
		t.Errorf("model: %s", out)
	}
}

func TestTheModelCheckFindsPlantedFaultsAndPrintsTheSeed(t *testing.T) {
	quietly(t, "rapid.nofailfile", "true")
	quietly(t, "rapid.shrinktime", "100ms")
	for name, plant := range planted {
		if !plant.history {
			continue
		}
		t.Run(name, func(t *testing.T) {
			// Seeds are drawn anew: a rare fault may take more than one round of them.
			out := ""
			for round := 0; out == "" && round < 40; round++ {
				out = watch(t, func(t testing.TB) { model(t, openReference(plant.flaw)) })
			}
			if out == "" {
				t.Fatal("no history fails")
			}
			if !strings.Contains(out, "-rapid.seed=") {
				t.Fatalf("the failure names no seed:\n%s", out)
			}
		})
	}
}

// quietly sets a flag for the length of a test.
func quietly(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	t.Cleanup(func() { _ = f.Value.Set(before) })
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
}
