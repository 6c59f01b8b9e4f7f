package postgres

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// inZone gives the address of dsn with sessions in a time zone.
func inZone(t *testing.T, dsn, zone string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("timezone", zone)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestSessionsInAnyTimeZoneHaveOneClock(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		b.exec(`ALTER DATABASE ` + databaseOf(t, b.cfg.DSN) + ` SET timezone = 'America/St_Johns'`)
		var stores []*Store
		for _, dsn := range []string{b.cfg.DSN, inZone(t, b.cfg.DSN, "UTC"), inZone(t, b.cfg.DSN, "Asia/Tokyo"), inZone(t, b.cfg.DSN, "Pacific/Kiritimati")} {
			stores = append(stores, mustOpen(t, Config{DSN: dsn, Plan: plan, clock: flowingClock}))
		}
		for i, s := range stores {
			id := fmt.Sprint(i)
			res := s.Apply(t.Context(), testBegin(id, "this"))[0]
			if res.Err != nil || res.Verdict != lifecycle.Granted {
				t.Fatalf("begin: %v %v", res.Verdict, res.Err)
			}
			for j, other := range stores {
				if got := other.Apply(t.Context(), testBegin(id, "another"))[0]; got.Verdict != lifecycle.InProgress {
					t.Errorf("store %d granted what store %d had: %v %v", j, i, got.Verdict, got.Err)
				}
				snapshot, err := other.Read(t.Context(), testKey(id))
				if err != nil {
					t.Fatal(err)
				}
				if late := snapshot.Now.Sub(oncekeeper.Instant(res.Record.Token)); late < 0 || late > time.Minute {
					t.Errorf("store %d is %v behind store %d", j, late, i)
				}
			}
			b.advance(time.Minute)
			if got := stores[(i+1)%len(stores)].Apply(t.Context(), testBegin(id, "another"))[0]; got.Verdict != lifecycle.Granted || !got.Record.Takeover {
				t.Errorf("what store %d abandoned is not taken over: %v %v", i, got.Verdict, got.Err)
			}
		}
	})
}

func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path[1:]
}

// TestTheClockOfTheServersHostIsNeverAsked has the database's clock three minutes,
// and a year, ahead of the host's and behind it: each is what one of two hosts sees
// whose clocks differ.
func TestTheClockOfTheServersHostIsNeverAsked(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		for _, ahead := range []time.Duration{3 * time.Minute, -3 * time.Minute, 365 * 24 * time.Hour, -365 * 24 * time.Hour} {
			t.Run(ahead.String(), func(t *testing.T) {
				cfg := Config{DSN: pgtest.Database(t), Plan: plan, clock: flowingClock}
				hands := handsOn(t, cfg.DSN)
				hands.advance(ahead)
				s := mustOpen(t, cfg)
				host := oncekeeper.Instant(time.Now().UnixMicro())
				res := s.Apply(t.Context(), testBegin("1", "this"))[0]
				if res.Err != nil {
					t.Fatal(res.Err)
				}
				for about, at := range map[string]oncekeeper.Instant{
					"judged": res.Now, "created": res.Record.Created, "token": oncekeeper.Instant(res.Record.Token), "lease end": res.Record.LeaseEnd.Add(-time.Minute),
				} {
					if off := at.Sub(host) - ahead; off < -time.Minute || off > time.Minute {
						t.Errorf("%s is %v from the database's clock", about, off)
					}
				}
				if got := s.Apply(t.Context(), testBegin("1", "another"))[0]; got.Verdict != lifecycle.InProgress {
					t.Errorf("a live lease was seized: %v %v", got.Verdict, got.Err)
				}
				hands.advance(time.Minute)
				if got := s.Apply(t.Context(), testBegin("1", "another"))[0]; got.Verdict != lifecycle.Granted {
					t.Errorf("a lease that ended was not: %v %v", got.Verdict, got.Err)
				}
			})
		}
	})
}

func TestALeaseOutlivesRestartsAndEndsWhenItShould(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		begin := testBegin("1", "this")
		begin.Grant.Lease = 30 * time.Second
		b.granted(t, begin)
		s := b.Store
		for range 3 {
			mustClose(t, s)
			s = mustOpen(t, b.cfg)
			if got := s.Apply(t.Context(), testBegin("1", "another"))[0]; got.Verdict != lifecycle.InProgress {
				t.Errorf("a live lease was seized: %v %v", got.Verdict, got.Err)
			}
			b.advance(10 * time.Second)
		}
		b.advance(-time.Microsecond)
		if got := s.Apply(t.Context(), testBegin("1", "another"))[0]; got.Verdict != lifecycle.InProgress {
			t.Errorf("a lease was seized a microsecond early: %v %v", got.Verdict, got.Err)
		}
		b.advance(time.Microsecond)
		if got := s.Apply(t.Context(), testBegin("1", "another"))[0]; got.Verdict != lifecycle.Granted || !got.Record.Takeover {
			t.Errorf("an abandoned key is not free at the end of its lease: %v %v", got.Verdict, got.Err)
		}
	})
}
