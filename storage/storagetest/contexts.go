package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

var errGone = errors.New("the caller went away")

// ended gives contexts that are over, with what ended them.
func ended() map[string]struct {
	ctx   context.Context
	cause error
} {
	cancelled, cancel := context.WithCancel(background)
	cancel()
	caused, because := context.WithCancelCause(background)
	because(errGone)
	late, stop := context.WithDeadline(background, time.Unix(0, 0))
	stop()
	return map[string]struct {
		ctx   context.Context
		cause error
	}{
		"cancelled":              {cancelled, context.Canceled},
		"cancelled with a cause": {caused, errGone},
		"past its deadline":      {late, context.DeadlineExceeded},
	}
}

var endedContexts = []check{
	{"a begin whose context has ended is not applied, and says why", func(h *hands) {
		for name, end := range ended() {
			key := keyOf(name)
			res := h.Store.Apply(end.ctx, h.begins(key))[0]
			if !errors.Is(res.Err, end.cause) {
				h.Fatalf("%s: got error %v, want %v", name, res.Err, end.cause)
			}
			h.absent(key)
		}
	}},
	{"every other command is applied although its context has ended", func(h *hands) {
		for name, end := range ended() {
			keys := []oncekeeper.Key{keyOf(name + " 0"), keyOf(name + " 1"), keyOf(name + " 2"), keyOf(name + " 3")}
			var tokens []int64
			for _, key := range keys {
				tokens = append(tokens, h.granted(key))
			}
			etag := h.mirror[keys[3]].Etag()
			cmds := []lifecycle.Command{
				h.begins(keyOf(name + " new")),
				completes(keys[0], tokens[0]),
				lifecycle.Renew{Key: keys[1], Token: tokens[1], Checkpoint: []byte("half")},
				h.begins(keys[0]),
				fails(keys[2], tokens[2], oncekeeper.SettledUnknown),
				lifecycle.Delete{Key: keys[3], Etag: etag, Force: true},
			}
			for i, res := range h.Store.Apply(end.ctx, cmds...) {
				if _, begin := cmds[i].(lifecycle.Begin); !begin {
					h.mirror.judged(h, cmds[i], res)
				} else if !errors.Is(res.Err, end.cause) {
					h.Fatalf("%s: begin %d: got %v %v, want error %v", name, i, res.Verdict, res.Err, end.cause)
				}
			}
			h.read(append(keys, keyOf(name+" new"))...)
		}
	}},
	{"a settlement stands however its context ends meanwhile", func(h *hands) {
		for i := range 50 {
			key := keyOf(fmt.Sprint(i))
			token := h.granted(key)
			ctx, cancel := context.WithCancel(background)
			var both sync.WaitGroup
			both.Go(cancel)
			var results []storage.Result
			both.Go(func() { results = h.Store.Apply(ctx, completes(key, token)) })
			both.Wait()
			h.mirror.judged(h, completes(key, token), results[0])
			h.read(key)
		}
	}},
	{"a begin whose context ends meanwhile is granted or not applied, as it says", func(h *hands) {
		for i := range 50 {
			begin := h.begins(keyOf(fmt.Sprint(i)))
			ctx, cancel := context.WithCancelCause(background)
			var both sync.WaitGroup
			both.Go(func() { cancel(errGone) })
			var res storage.Result
			both.Go(func() { res = h.Store.Apply(ctx, begin)[0] })
			both.Wait()
			if res.Err == nil {
				h.mirror.judged(h, begin, res)
			} else if !errors.Is(res.Err, errGone) {
				h.Fatalf("got error %v, want %v", res.Err, errGone)
			}
			h.read(begin.Key)
		}
	}},
	{"a read, a list, a sweep or a ping whose context has ended gives what ended it, if an error", func(h *hands) {
		h.completed(keyOf("k"))
		h.Advance(2 * retention)
		for name, end := range ended() {
			_, read := h.Store.Read(end.ctx, keyOf("k"))
			_, list := h.Store.List(end.ctx, storage.ListQuery{Limit: 10})
			_, sweep := h.Store.Sweep(end.ctx, storage.SweepQuery{Limit: 10})
			ping := h.Store.Ping(end.ctx)
			for what, err := range map[string]error{"read": read, "list": list, "sweep": sweep, "ping": ping} {
				if err != nil && !errors.Is(err, end.cause) {
					h.Fatalf("%s, %s: got error %v, want %v", what, name, err, end.cause)
				}
			}
		}
	}},
}
