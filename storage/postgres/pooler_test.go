package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
	"github.com/oncekeeper/oncekeeper/storage/storagetest"
)

func TestBehindAPoolerInTransactionMode(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		storagetest.RunModel(t, func(t testing.TB) storagetest.Opened {
			direct := pgtest.Database(t)
			hands := handsOn(t, direct)
			s := mustOpen(t, Config{DSN: pgtest.Pooler(t, direct), Plan: plan, clock: testClock, elapsed: hands.elapsed})
			return storagetest.Opened{Store: s, Advance: hands.advance, Sequences: 30}
		})
	})
}

func TestAHundredClientsShareTwoConnectionsOfAPooler(t *testing.T) {
	onEachPlan(t, aHundredClients)
}

func aHundredClients(t *testing.T, plan Plan) {
	dsn := pgtest.Pooler(t, pgtest.Database(t))
	var stores []*Store
	for range 5 {
		stores = append(stores, mustOpen(t, Config{DSN: dsn, Plan: plan, MaxConns: 20, Committers: 10}))
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			s := stores[i%len(stores)]
			for n := range 5 {
				id := fmt.Sprintf("%d-%d", i, n)
				res := s.Apply(t.Context(), testBegin(id, id))[0]
				if res.Err != nil || res.Verdict != lifecycle.Granted {
					t.Errorf("begin: %v %v", res.Verdict, res.Err)
					return
				}
				if res := s.Apply(t.Context(), testComplete(id, res.Record.Token))[0]; res.Refusal() != nil {
					t.Errorf("complete: %v", res.Refusal())
				}
				if _, err := s.Read(t.Context(), testKey(id), testKey("none")); err != nil {
					t.Errorf("read: %v", err)
				}
				if _, err := s.List(t.Context(), storage.ListQuery{Limit: 3, Order: storage.ByAge}); err != nil {
					t.Errorf("list: %v", err)
				}
			}
		})
	}
	all.Wait()
}

func TestServersMigrateBehindAPoolerThoughOneIsKilled(t *testing.T) {
	direct := pgtest.EmptyDatabase(t)
	dsn := pgtest.Pooler(t, direct)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed, kill := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _, _ = Migrate(killed, Config{DSN: dsn}) })
	for range 4 {
		all.Go(func() {
			if _, err := Migrate(ctx, Config{DSN: dsn}); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	kill()
	all.Wait()
	var locks int
	if err := connect(t, direct).QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`).Scan(&locks); err != nil || locks > 0 {
		t.Errorf("%d locks stayed behind (%v)", locks, err)
	}
	mustOpen(t, Config{DSN: dsn})
}
