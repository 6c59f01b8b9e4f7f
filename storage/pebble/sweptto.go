package pebble

import (
	"bytes"
	"sync"

	"github.com/oncekeeper/oncekeeper/storage"
)

// sweptTo is a place in the index by expiry before which everything is deleted:
// nothing is written there any more, since what is written expires later. A sweep
// that began before it would pass over all that was deleted, again for each batch,
// until a compaction drops it.
type sweptTo struct {
	mu sync.Mutex
	at []byte
}

func (s *sweptTo) from() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		return []byte{spaceExpiry}
	}
	return s.at
}

// upTo says that q's sweep deleted all that lies before entry.
func (s *sweptTo) upTo(entry []byte, q storage.SweepQuery) {
	if q.DryRun || q.Tenant != "" || q.Operation != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Compare(entry, s.at) > 0 {
		s.at = bytes.Clone(entry)
	}
}
