package pebble

import (
	"context"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	t := &applyTask{ctx: ctx, cmds: cmds, results: make([]storage.Result, len(cmds)), answers: storage.AnswersTo(len(cmds))}
	if err := s.do(t); err != nil {
		t.finish(err)
	}
	return t.results
}

type applyTask struct {
	ctx     context.Context
	cmds    []lifecycle.Command
	results []storage.Result
	answers storage.Answers
}

func (t *applyTask) run(r *round) {
	for i, cmd := range t.cmds {
		t.results[i] = t.judge(r, cmd)
	}
}

func (t *applyTask) judge(r *round, cmd lifecycle.Command) storage.Result {
	_, isBegin := cmd.(lifecycle.Begin)
	if isBegin && t.ctx.Err() != nil {
		return storage.Result{Now: r.now, Err: context.Cause(t.ctx)}
	}
	if t.answers.Full() {
		return storage.Result{Now: r.now, Err: oncekeeper.ErrAskAlone}
	}
	rec, err := r.get(cmd.Target())
	if err != nil {
		return storage.Result{Now: r.now, Err: err}
	}
	next, verdict := lifecycle.Apply(rec, cmd, r.now)
	if !t.answers.Add(cmd, next, verdict) {
		return storage.Result{Now: r.now, Err: oncekeeper.ErrAskAlone}
	}
	if next != rec {
		room := r.store.roomToSettle()
		if isBegin {
			room = r.store.roomToBegin()
		}
		if err := r.put(cmd.Target(), next, room); err != nil {
			return storage.Result{Now: r.now, Err: err}
		}
	}
	return storage.Result{Verdict: verdict, Record: next, Now: r.now}
}

func (t *applyTask) finish(err error) {
	if err == nil {
		return
	}
	for i, res := range t.results {
		if res.Err == nil {
			t.results[i] = storage.Result{Now: res.Now, Err: err}
		}
	}
}

func (t *applyTask) bytes() int {
	size := 0
	for _, cmd := range t.cmds {
		size += commandBytes(cmd)
	}
	return size
}

// commandBytes is about what a command holds: its parts of any size, and 512
// for the rest.
func commandBytes(cmd lifecycle.Command) int {
	switch c := cmd.(type) {
	case lifecycle.Renew:
		return 512 + len(c.Checkpoint)
	case lifecycle.Settle:
		return 512 + storage.ResponseBytes(c.Response) + storage.StatusBytes(c.Status)
	case lifecycle.Resolve:
		return 512 + storage.ResponseBytes(c.Response) + storage.StatusBytes(c.Status)
	default:
		return 512
	}
}
