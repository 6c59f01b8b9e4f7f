package pgtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Clock is the clock of a database, which stands until it is moved. Its methods
// may be called from any goroutine.
type Clock struct {
	t    testing.TB
	mu   sync.Mutex
	conn *pgx.Conn
}

// stopClock puts functions of the same names before Postgres's own, for every
// session that begins from then on. Whoever asks the database for the time is told
// by them and need not know.
const stopClock = `
CREATE SCHEMA stopped_clock;
CREATE TABLE stopped_clock.moment (at timestamptz NOT NULL);
CREATE FUNCTION stopped_clock.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM stopped_clock.moment';
CREATE FUNCTION stopped_clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT at FROM stopped_clock.moment';
DO $$ BEGIN
	EXECUTE format('ALTER DATABASE %I SET search_path = stopped_clock, pg_catalog, public', current_database());
END $$`

// StopClock has the clock of the database at address stand at a moment, for
// whoever connects to it afterwards.
func StopClock(t testing.TB, address string, at time.Time) *Clock {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	c := &Clock{t: t, conn: conn}
	c.exec(stopClock)
	c.exec(`INSERT INTO stopped_clock.moment VALUES ($1)`, at)
	return c
}

// Advance moves the clock on by d.
func (c *Clock) Advance(d time.Duration) {
	c.t.Helper()
	c.exec(`UPDATE stopped_clock.moment SET at = at + $1::bigint * interval '1 microsecond'`, d.Microseconds())
}

func (c *Clock) exec(sql string, args ...any) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.conn.Exec(context.Background(), sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}
