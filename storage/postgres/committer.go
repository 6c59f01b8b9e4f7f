package postgres

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// call is one command, and where its result goes.
type call struct {
	cmd    lifecycle.Command
	result *storage.Result
	// doubt: it may have been applied by a commit whose answer was lost.
	doubt bool
}

// work is all that one batch does with one key, in order.
type work struct {
	key   oncekeeper.Key
	calls []*call
}

// maxTries bounds how often a batch is tried that others got in the way of.
const maxTries = 5

// commit has every command of the batch judged, or says why not. It is bounded in
// time by itself, not by those who wait for it.
func (s *Store) commit(batch []*task) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.WriteTimeout)
	defer cancel()
	since := s.cfg.elapsed()
	defer func() { s.counters.committed(batch, s.cfg.elapsed()-since) }()
	s.boundAnswers(ctx, batch)
	var quick, rest []*work
	for _, w := range sorted(batch) {
		if isQuick(w) {
			quick = append(quick, w)
		} else {
			rest = append(rest, w)
		}
	}
	if s.plan == PlanSingle {
		rest = append(rest, s.applyEach(ctx, quick)...)
	} else {
		rest = append(rest, s.applyQuick(ctx, quick)...)
	}
	slices.SortFunc(rest, func(a, b *work) int { return inOrder(a.key, b.key) })
	s.applyLocked(ctx, rest)
	for _, t := range batch {
		t.boundReplays()
	}
}

// sorted gives the work of a batch in the order of keys.
func sorted(batch []*task) []*work {
	byKey := map[oncekeeper.Key]*work{}
	var all []*work
	for _, t := range batch {
		for i, cmd := range t.cmds {
			if t.results[i].Err != nil {
				continue
			}
			if _, isBegin := cmd.(lifecycle.Begin); isBegin && t.ctx.Err() != nil {
				t.results[i].Err = context.Cause(t.ctx)
				continue
			}
			key := cmd.Target()
			w := byKey[key]
			if w == nil {
				w = &work{key: key}
				byKey[key] = w
				all = append(all, w)
			}
			w.calls = append(w.calls, &call{cmd: cmd, result: &t.results[i]})
		}
	}
	slices.SortFunc(all, func(a, b *work) int { return inOrder(a.key, b.key) })
	return all
}

func inOrder(a, b oncekeeper.Key) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Operation, b.Operation), strings.Compare(a.ID, b.ID))
}

// doubted marks that a commit of all may have been lost.
func doubted(all []*work) {
	for _, w := range all {
		for _, c := range w.calls {
			c.doubt = true
		}
	}
}

// fail gives every call of all an error.
func (s *Store) fail(all []*work, cause error) {
	err := unavailable("writing", cause)
	s.counters.answered(pathFailed, all...)
	for _, w := range all {
		for _, c := range w.calls {
			*c.result = storage.Result{Err: err}
		}
	}
}

// judge applies the calls of w to rec, one after the other, at now, and gives the
// record that they leave. It answers no call: its results are only for when what
// they rest on is committed.
func judge(w *work, rec *oncekeeper.KeyRecord, now oncekeeper.Instant) (*oncekeeper.KeyRecord, []storage.Result) {
	results := make([]storage.Result, len(w.calls))
	for i, c := range w.calls {
		next, verdict := lifecycle.Apply(rec, c.cmd, now)
		if c.doubt && !proves(c.cmd, verdict) {
			results[i] = storage.Result{Now: now, Err: unavailable("writing", errLostCommit)}
			continue
		}
		rec = next
		results[i] = storage.Result{Verdict: verdict, Record: rec, Now: now}
	}
	return rec, results
}

var errLostCommit = errors.New("the answer to a commit was lost, and nothing proves that it was applied or was not")

// proves says whether a verdict on a command that may have been applied already
// would be the same had it not been: every other may be the echo of itself. A
// Begin that finds its own call id, and a settlement that stands already, are told
// as done by lifecycle itself.
func proves(cmd lifecycle.Command, verdict lifecycle.Verdict) bool {
	switch cmd.(type) {
	case lifecycle.Begin:
		return verdict != lifecycle.InProgress && verdict != lifecycle.Unresolved
	case lifecycle.Renew:
		return true
	default:
		return verdict == lifecycle.Settled || verdict == lifecycle.Resolved || verdict == lifecycle.Deleted
	}
}

func (w *work) answer(results []storage.Result) {
	for i, c := range w.calls {
		*c.result = results[i]
	}
}

// pause waits a little, and longer each time, so that those who collided do not
// meet again.
func pause(ctx context.Context, try int) {
	d := time.Duration(1<<try) * time.Millisecond
	select {
	case <-time.After(d/2 + rand.N(d)):
	case <-ctx.Done():
	}
}
