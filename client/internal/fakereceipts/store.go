// Package fakereceipts is a business database in memory, for the tests of what
// stands on receipts: rows under a lock each, transactions that a test can stop at
// every step, and a count of effects. It obeys the rules of client/receipt and owns
// none.
package fakereceipts

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// Store is the database. Its zero value is empty and ready.
type Store struct {
	// Now is the database's clock; nil: it stands at the zero time.
	Now func() time.Time

	mu      sync.Mutex
	onStep  func(ctx context.Context, step string) error
	rows    map[oncekeeper.Key]*receipt.Receipt
	locks   map[oncekeeper.Key]chan struct{}
	effects map[oncekeeper.Key]int
	steps   []string
}

var _ receipt.Store = (*Store)(nil)

// OnStep has f called before each step ("look", "close", "claim", "commit",
// "committed"), outside of any lock but the row's; nil ends that. Its error is the
// step's: of "committed", that nobody heard of the commit.
func (s *Store) OnStep(f func(ctx context.Context, step string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onStep = f
}

func (s *Store) step(ctx context.Context, name string) error {
	s.mu.Lock()
	s.steps = append(s.steps, name)
	f := s.onStep
	s.mu.Unlock()
	if f == nil {
		return ctx.Err()
	}
	if err := f(ctx, name); err != nil {
		return err
	}
	return ctx.Err()
}

// Steps gives how often a step was reached.
func (s *Store) Steps(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, step := range s.steps {
		if step == name {
			n++
		}
	}
	return n
}

// lock takes the row of key for a transaction, and waits for another's.
func (s *Store) lock(ctx context.Context, key oncekeeper.Key) (unlock func(), err error) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = map[oncekeeper.Key]chan struct{}{}
	}
	row := s.locks[key]
	if row == nil {
		row = make(chan struct{}, 1)
		s.locks[key] = row
	}
	s.mu.Unlock()
	select {
	case row <- struct{}{}:
		return func() { <-row }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Row gives what is committed of key.
func (s *Store) Row(key oncekeeper.Key) *receipt.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[key]
}

// Put commits a row as it is, and an effect where it is applied.
func (s *Store) Put(r receipt.Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[oncekeeper.Key]*receipt.Receipt{}
		s.effects = map[oncekeeper.Key]int{}
	}
	if r.Written.IsZero() && s.Now != nil {
		r.Written = s.Now()
	}
	if r.Applied() {
		s.effects[r.Key]++
	}
	s.rows[r.Key] = &r
}

// Effects gives how often the operation of key happened.
func (s *Store) Effects(key oncekeeper.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[key]
}

// Look implements receipt.Store.
func (s *Store) Look(ctx context.Context, key oncekeeper.Key) (*receipt.Receipt, error) {
	if err := s.step(ctx, "look"); err != nil {
		return nil, err
	}
	return s.Row(key), nil
}

// Close implements receipt.Store.
func (s *Store) Close(ctx context.Context, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	if err := s.step(ctx, "close"); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if row := s.Row(c.Key); !row.Applied() {
		closed := receipt.Closed(row, c, floor)
		closed.Written = time.Time{}
		s.Put(closed)
	}
	return s.Row(c.Key), nil
}

// Old implements receipt.Store.
func (s *Store) Old(_ context.Context, before time.Time, after oncekeeper.Key, limit int) ([]receipt.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old []receipt.Receipt
	for _, r := range s.rows {
		if r.Written.Before(before) && compare(r.Key, after) > 0 {
			without := *r
			without.Response = nil
			old = append(old, without)
		}
	}
	slices.SortFunc(old, func(a, b receipt.Receipt) int { return compare(a.Key, b.Key) })
	return old[:min(limit, len(old))], nil
}

func compare(a, b oncekeeper.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.ID, b.ID))
}

// Delete implements receipt.Store.
func (s *Store) Delete(_ context.Context, key oncekeeper.Key, before time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[key]
	if r == nil || !r.Written.Before(before) {
		return false, nil
	}
	delete(s.rows, key)
	return true, nil
}
