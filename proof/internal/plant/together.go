package plant

import (
	"context"
	"sync"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// shared has Begins of one key that come together share one row's answer, as one
// statement over both would.
type shared struct {
	storage.Store

	mu   sync.Mutex
	open map[oncekeeper.Key]*row
}

type row struct {
	done   chan struct{}
	result storage.Result
}

func newShared(inner storage.Store) *shared {
	return &shared{Store: inner, open: map[oncekeeper.Key]*row{}}
}

func (s *shared) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	results := make([]storage.Result, len(cmds))
	for i, cmd := range cmds {
		if c, begins := cmd.(lifecycle.Begin); begins {
			results[i] = s.begin(ctx, c)
		} else {
			results[i] = s.Store.Apply(ctx, cmd)[0]
		}
	}
	return results
}

func (s *shared) begin(ctx context.Context, c lifecycle.Begin) storage.Result {
	s.mu.Lock()
	if r := s.open[c.Key]; r != nil {
		s.mu.Unlock()
		<-r.done
		return r.result
	}
	r := &row{done: make(chan struct{})}
	s.open[c.Key] = r
	s.mu.Unlock()
	r.result = s.Store.Apply(ctx, c)[0]
	s.mu.Lock()
	delete(s.open, c.Key)
	s.mu.Unlock()
	close(r.done)
	return r.result
}
