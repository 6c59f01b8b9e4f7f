package storagetest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// reference is the simplest store there is: a map, a lock, and lifecycle. It
// shows that the suite can be satisfied, and with a flaw, that it can fail.
type reference struct {
	mu      sync.Mutex
	data    *data
	closed  bool
	flaw    flaw
	between func()
}

// data is what outlives a reference that is closed.
type data struct {
	clock   *clock.Manual
	records map[oncekeeper.Key]*oncekeeper.KeyRecord
	seen    map[oncekeeper.Key]bool // for a flaw: keys that were ever begun
}

func openReference(with flaw) Open {
	return func(testing.TB) Opened {
		kept := &data{
			clock:   clock.NewManual(time.Unix(1_700_000_000, 0)),
			records: map[oncekeeper.Key]*oncekeeper.KeyRecord{},
			seen:    map[oncekeeper.Key]bool{},
		}
		r := &reference{data: kept, flaw: with}
		return Opened{
			Store:   r,
			Advance: kept.clock.Advance,
			Reopen: func() storage.Store {
				_ = r.Close()
				if with.forgets {
					clear(kept.records)
				}
				r = &reference{data: kept, flaw: with}
				return r
			},
			BeforeDelete: func(hook func()) { r.between = hook },
		}
	}
}

func (r *reference) now() oncekeeper.Instant { return oncekeeper.InstantOf(r.data.clock.Now()) }

func (r *reference) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	results := make([]storage.Result, len(cmds))
	if r.closed {
		for i := range results {
			results[i].Err = oncekeeper.ErrStoreUnavailable
		}
		return results
	}
	if r.flaw.apply != nil {
		return r.flaw.apply(r, ctx, cmds)
	}
	answers := storage.AnswersTo(len(cmds))
	for i, cmd := range cmds {
		if answers.Full() {
			results[i].Err = oncekeeper.ErrAskAlone
			continue
		}
		before := r.data.records[cmd.Target()]
		results[i] = r.judge(ctx, cmd)
		if results[i].Err == nil && !answers.Add(cmd, results[i].Record, results[i].Verdict) {
			r.data.records[cmd.Target()] = before
			results[i] = storage.Result{Now: results[i].Now, Err: oncekeeper.ErrAskAlone}
		}
	}
	return results
}

func (r *reference) judge(ctx context.Context, cmd lifecycle.Command) storage.Result {
	return r.judgeBy(ctx, cmd, lifecycle.Apply)
}

// rule is lifecycle.Apply, or what a flaw has in its place.
type rule = func(*oncekeeper.KeyRecord, lifecycle.Command, oncekeeper.Instant) (*oncekeeper.KeyRecord, lifecycle.Verdict)

func (r *reference) judgeBy(ctx context.Context, cmd lifecycle.Command, apply rule) storage.Result {
	now := r.now()
	if _, begin := cmd.(lifecycle.Begin); begin && ctx.Err() != nil {
		return storage.Result{Now: now, Err: context.Cause(ctx)}
	}
	rec, verdict := apply(r.data.records[cmd.Target()], cmd, now)
	if rec != nil {
		r.data.records[cmd.Target()] = rec
	}
	return storage.Result{Verdict: verdict, Record: rec, Now: now}
}

func (r *reference) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return storage.Snapshot{}, oncekeeper.ErrStoreUnavailable
	}
	snapshot := storage.Snapshot{Now: r.now()}
	for _, key := range keys {
		rec := r.data.records[key]
		if rec != nil && lifecycle.Gone(rec, snapshot.Now) && !r.flaw.readsGone {
			rec = nil
		}
		snapshot.Records = append(snapshot.Records, rec)
	}
	return snapshot, context.Cause(ctx)
}

func (r *reference) List(ctx context.Context, q storage.ListQuery) (storage.Page, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	page := storage.Page{Now: r.now()}
	if r.closed {
		return page, oncekeeper.ErrStoreUnavailable
	}
	var found []*oncekeeper.KeyRecord
	for _, rec := range r.data.records {
		if !lifecycle.Gone(rec, page.Now) && selects(q, rec, page.Now) {
			found = append(found, rec)
		}
	}
	order := func(a, b *oncekeeper.KeyRecord) int {
		if q.Order == storage.ByAge {
			return cmp.Or(cmp.Compare(a.LeaseEnd, b.LeaseEnd), byKey(a.Key, b.Key))
		}
		return byKey(a.Key, b.Key)
	}
	slices.SortFunc(found, order)
	if q.After != "" {
		last := &oncekeeper.KeyRecord{}
		text, err := base64.URLEncoding.DecodeString(q.After)
		if err != nil || json.Unmarshal(text, last) != nil {
			return page, oncekeeper.ErrInvalidRequest
		}
		found = slices.DeleteFunc(found, func(rec *oncekeeper.KeyRecord) bool { return order(rec, last) <= 0 })
	}
	if len(found) > q.Limit {
		found = found[:q.Limit]
		last := found[q.Limit-1]
		text, err := json.Marshal(&oncekeeper.KeyRecord{Key: last.Key, LeaseEnd: last.LeaseEnd})
		if err != nil {
			return page, err
		}
		if r.flaw.pagesSkip {
			found = found[1:]
		}
		page.Next = base64.URLEncoding.EncodeToString(text)
	}
	page.Records = found
	return page, context.Cause(ctx)
}

func (r *reference) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	q.Grace = max(0, q.Grace)
	found, more, err := r.candidates(ctx, q)
	if err != nil {
		return storage.Swept{}, err
	}
	if q.DryRun {
		return storage.Swept{Records: int64(len(found)), More: more}, nil
	}
	if hook := r.between; hook != nil {
		r.between = nil
		hook()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	swept := storage.Swept{More: more}
	for _, rec := range found {
		if r.data.records[rec.Key] == rec || r.flaw.sweepsBlind {
			delete(r.data.records, rec.Key)
			swept.Records++
		}
	}
	return swept, nil
}

func (r *reference) candidates(ctx context.Context, q storage.SweepQuery) (found []*oncekeeper.KeyRecord, more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, oncekeeper.ErrStoreUnavailable
	}
	now := r.now()
	for _, rec := range r.data.records {
		if !lifecycle.Gone(rec, now.Add(-q.Grace)) || !r.inScope(q, rec.Key) {
			continue
		}
		if len(found) == q.Limit {
			return found, true, context.Cause(ctx)
		}
		found = append(found, rec)
	}
	return found, false, context.Cause(ctx)
}

func (r *reference) inScope(q storage.SweepQuery, key oncekeeper.Key) bool {
	if r.flaw.sweepsPrefix {
		return len(key.Tenant) >= len(q.Tenant) && key.Tenant[:len(q.Tenant)] == q.Tenant
	}
	return (q.Tenant == "" || q.Tenant == key.Tenant) && (q.Operation == "" || q.Operation == key.Operation)
}

func (r *reference) Shared() bool { return false }

func (r *reference) Ping(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return oncekeeper.ErrStoreUnavailable
	}
	return context.Cause(ctx)
}

func (r *reference) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}
