package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// TestFiveHundredWaitersLeaveAPoolOfFourToOthers counts at the wire what the
// server asks of its database while they wait, and lets others through meanwhile.
func TestFiveHundredWaitersLeaveAPoolOfFourToOthers(t *testing.T) {
	const waiters, conns = 500, 4
	address := pgtest.Database(t)
	clock := pgtest.StopClock(t, address, epoch)
	counter := pgtest.Count(t, address)
	h := start(t, records{advance: clock.Advance, open: func(t testing.TB) storage.Store {
		return openPostgres(t, postgres.Config{DSN: counter.Address, MaxConns: conns})
	}}, setup{})

	token := h.grant(t, begin("1", "holder")).GetFencingToken()
	answers := h.wait(t, "1", waiters)
	before := counter.Statements()
	for range 2000 { // two seconds, by the millisecond
		h.awaitPending(t, waiters+2)
		h.clock.Advance(time.Millisecond)
	}
	// A look is a statement for the records and one for the clock.
	if n := counter.Statements() - before; n < 2*18 || n > 2*40 {
		t.Errorf("%d waiters cost %d statements in two seconds, want some 40, and never more than 80", waiters, n)
	}
	for i := range 50 {
		id := fmt.Sprint("other ", i)
		h.complete(t, id, h.grant(t, begin(id, "")).GetFencingToken(), "done")
	}
	h.asleep(t, waiters)
	before = counter.Statements()
	h.complete(t, "1", token, "paid")
	for range waiters {
		if a := <-answers; string(a.res.GetOutcome().GetResponse().GetBody()) != "paid" {
			t.Fatalf("a waiter got %v, %v; want the outcome", a.res, a.err)
		}
	}
	if n := counter.Statements() - before; n != 1 {
		t.Errorf("the completion and its %d waiters cost %d statements, want 1", waiters, n)
	}
	if n := counter.Connections(); n > conns {
		t.Errorf("%d connections were opened, want at most %d", n, conns)
	}
}
