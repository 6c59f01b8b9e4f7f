package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
	"github.com/oncekeeper/oncekeeper/storage/storagetest"
)

func TestOnAClockThatTheTestMoves(t *testing.T) {
	storagetest.Run(t, opener(testClock, 200))
	storagetest.RunModel(t, opener(testClock, 200))
}

func TestOnTheClockOfTheDatabase(t *testing.T) {
	storagetest.Run(t, opener(flowingClock, 100))
	storagetest.RunModel(t, opener(flowingClock, 100))
}

// opener gives the suite stores, each on a database of its own.
func opener(clock sqlClock, sequences int) storagetest.Open {
	return func(t testing.TB) storagetest.Opened {
		cfg := Config{DSN: pgtest.Database(t), clock: clock}
		hands := handsOn(t, cfg.DSN)
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
	testClock    = sqlClock{start: `test_clock()`, now: `test_clock()`}
	flowingClock = sqlClock{
		start: databaseClock.start + ` + test_ahead()`,
		now:   databaseClock.now + ` + test_ahead()`,
	}
)

// hands hold a test's own connection to a database with the clocks of tests.
type hands struct {
	t    testing.TB
	mu   sync.Mutex
	conn *pgx.Conn
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
}

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
