package plant

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// seen knows every key that was begun.
type seen struct {
	mu   sync.Mutex
	keys map[oncekeeper.Key]bool
}

func (s *seen) note(cmds []lifecycle.Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[oncekeeper.Key]bool{}
	}
	for _, cmd := range cmds {
		s.keys[cmd.Target()] = true
	}
}

// gone gives those whose records are gone now.
func (s *seen) gone(ctx context.Context, inner storage.Store) (gone []oncekeeper.Key) {
	s.mu.Lock()
	var all []oncekeeper.Key
	for key := range s.keys {
		all = append(all, key)
	}
	s.mu.Unlock()
	found, err := inner.Read(ctx, all...)
	if err != nil {
		return nil
	}
	for i, rec := range found.Records {
		if rec == nil {
			gone = append(gone, all[i])
		}
	}
	return gone
}

// blind sweeps what it found to be gone, a little later, and does not look again.
type blind struct {
	storage.Store
	seen seen
}

func newBlind(inner storage.Store) *blind { return &blind{Store: inner} }

func (s *blind) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	s.seen.note(cmds)
	return s.Store.Apply(ctx, cmds...)
}

func (s *blind) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	gone := s.seen.gone(ctx, s.Store)
	time.Sleep(20 * time.Millisecond)
	for _, key := range gone {
		found, err := s.Read(ctx, key)
		if err == nil && found.Records[0] != nil {
			s.Store.Apply(ctx, lifecycle.Delete{Key: key, Etag: found.Records[0].Etag(), Force: true, Reason: "planted"})
		}
	}
	return s.Store.Sweep(ctx, q)
}

// forgetful has the tokens of a key start again at 1 once its record was swept. It
// keeps by how much the tokens that it tells are less than the real ones.
type forgetful struct {
	storage.Store
	seen seen

	mu    sync.Mutex
	swept map[oncekeeper.Key]bool
	less  map[oncekeeper.Key]int64
}

func newForgetful(inner storage.Store) *forgetful {
	return &forgetful{Store: inner, swept: map[oncekeeper.Key]bool{}, less: map[oncekeeper.Key]int64{}}
}

func (s *forgetful) Sweep(ctx context.Context, q storage.SweepQuery) (storage.Swept, error) {
	gone := s.seen.gone(ctx, s.Store)
	s.mu.Lock()
	for _, key := range gone {
		s.swept[key] = true
	}
	s.mu.Unlock()
	return s.Store.Sweep(ctx, q)
}

func (s *forgetful) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	s.seen.note(cmds)
	results := make([]storage.Result, len(cmds))
	for i, cmd := range cmds {
		key := cmd.Target()
		res := s.Store.Apply(ctx, s.real(cmd))[0]
		s.mu.Lock()
		if rec := res.Record; rec != nil && res.Verdict == lifecycle.Granted && rec.Attempt == 1 && rec.Revision == 1 && s.swept[key] {
			delete(s.swept, key)
			s.less[key] = rec.Token - 1
		}
		s.mu.Unlock()
		res.Record = s.told(key, res.Record)
		results[i] = res
	}
	return results
}

func (s *forgetful) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	found, err := s.Store.Read(ctx, keys...)
	for i, rec := range found.Records {
		found.Records[i] = s.told(keys[i], rec)
	}
	return found, err
}

func (s *forgetful) told(key oncekeeper.Key, rec *oncekeeper.KeyRecord) *oncekeeper.KeyRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec == nil || s.less[key] == 0 {
		return rec
	}
	told := *rec
	told.Token -= s.less[key]
	return &told
}

func (s *forgetful) real(cmd lifecycle.Command) lifecycle.Command {
	s.mu.Lock()
	less := s.less[cmd.Target()]
	s.mu.Unlock()
	etag := func(told string) string {
		var token, revision int64
		if n, _ := fmt.Sscanf(told, "%d-%d", &token, &revision); n < 2 {
			return told
		}
		return fmt.Sprintf("%d-%d", token+less, revision)
	}
	switch c := cmd.(type) {
	case lifecycle.Renew:
		c.Token += less
		return c
	case lifecycle.Settle:
		c.Token += less
		return c
	case lifecycle.Resolve:
		c.Etag = etag(c.Etag)
		return c
	case lifecycle.Delete:
		c.Etag = etag(c.Etag)
		return c
	default:
		return cmd
	}
}
