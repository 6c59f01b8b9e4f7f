package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
	"github.com/oncekeeper/oncekeeper/storage/storagetest"
)

func TestOnAClockThatTheTestMoves(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		open := opener(t, plan, testClock, 200)
		storagetest.Run(t, open)
		storagetest.RunModel(t, open)
	})
}

func TestOnTheClockOfTheDatabase(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		open := opener(t, plan, flowingClock, 100)
		storagetest.Run(t, open)
		storagetest.RunModel(t, open)
	})
}

// opener gives the suite stores, one after the other on one database, which is
// emptied in between: making one takes longer than most of what is tested on it.
func opener(t testing.TB, plan Plan, clock sqlClock, sequences int) storagetest.Open {
	cfg := Config{DSN: pgtest.Database(t), Plan: plan, clock: clock}
	hands := handsOn(t, cfg.DSN)
	cfg.elapsed = hands.elapsed // no machine is so slow that a grant is judged again
	if plan == PlanSingle {
		sequences /= 2 // each of its transactions is a round trip more
	}
	var inUse atomic.Bool
	return func(t testing.TB) storagetest.Opened {
		if inUse.Swap(true) {
			t.Fatal("the store before this one is still open")
		}
		t.Cleanup(func() { inUse.Store(false) })
		hands.exec(`TRUNCATE oncekeeper_records`)
		s := mustOpen(t, cfg)
		return storagetest.Opened{
			Store:   s,
			Advance: hands.advance,
			Flows:   clock == flowingClock,
			Reopen: func() storage.Store {
				mustClose(t, s)
				s = mustOpen(t, cfg)
				return s
			},
			BeforeDelete: func(hook func()) {
				s.beforeDelete = func() {
					s.beforeDelete = nil
					hook()
				}
			},
			Sequences: sequences,
		}
	}
}

// testClock stands until it is moved; flowingClock is the database's, ahead by
// what it was moved.
var (
	testClock    = sqlClock{start: `test_start()`, now: `test_clock()`}
	flowingClock = sqlClock{
		start: databaseClock.start + ` + test_start() - 1893553445000000`,
		now:   databaseClock.now + ` + test_ahead()`,
	}
)

// hands hold a test's own connection to a database with the clocks of tests.
type hands struct {
	t     testing.TB
	mu    sync.Mutex
	conn  *pgx.Conn
	ahead atomic.Int64
}

func handsOn(t testing.TB, dsn string) *hands {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	h := &hands{t: t, conn: conn}
	h.exec(`CREATE TABLE test_time (ahead bigint NOT NULL)`)
	h.exec(`INSERT INTO test_time VALUES (0)`)
	h.exec(`CREATE FUNCTION test_ahead() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT ahead FROM test_time'`)
	h.exec(`CREATE FUNCTION test_clock() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT 1893553445000000 + ahead FROM test_time'`)
	h.exec(`CREATE FUNCTION test_start() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT 1893553445000000 + ahead FROM test_time'`)
	return h
}

func (h *hands) exec(sql string, args ...any) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.conn.Exec(context.Background(), sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

func (h *hands) advance(d time.Duration) {
	h.t.Helper()
	h.exec(`UPDATE test_time SET ahead = ahead + $1`, d.Microseconds())
	h.ahead.Add(int64(d))
}

// elapsed is the host's monotonic clock, which went on as the database's did.
func (h *hands) elapsed() time.Duration { return time.Duration(h.ahead.Load()) }

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
