package stage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// Fault is something that befalls servers or their store.
type Fault string

const (
	// Kill is kill -9 of a server, which is started again.
	Kill Fault = "kill"
	// Pause is SIGSTOP, and SIGCONT later.
	Pause Fault = "pause"
	// Cut ends the connections between callers and a server, or swallows what goes one
	// way.
	Cut Fault = "cut"
	// Delay slows them.
	Delay Fault = "delay"
	// Step steps the clock of a server's host, ahead or back.
	Step Fault = "step"
	// CutStore is Cut between a server and its database.
	CutStore Fault = "cut-store"
	// DelayStore is Delay between a server and its database.
	DelayStore Fault = "delay-store"
	// Restart ends the database at once and starts it again.
	Restart Fault = "restart"
	// Failover kills the primary and promotes its synchronous standby.
	Failover Fault = "failover"
)

// Faults gives those that there are for a store.
func Faults(store Store) []Fault {
	all := []Fault{Kill, Pause, Cut, Delay, Step}
	if store == Postgres {
		all = append(all, CutStore, DelayStore, Restart, Failover)
	}
	return all
}

// Strike does f and undoes it, and returns when it is over, with what it was in words.
// Several may be under way at once.
func (s *Stage) Strike(f Fault, random *rand.Rand) string {
	i := random.IntN(len(s.servers))
	one := s.servers[i]
	switch f {
	case Kill:
		down := between(random, 0, 150*time.Millisecond)
		one.kill(s, down)
		return fmt.Sprintf("server %d killed, down for %v", i, down)
	case Pause:
		d := between(random, 50*time.Millisecond, 1200*time.Millisecond)
		one.pause(s, d)
		return fmt.Sprintf("server %d stopped for %v", i, d)
	case Cut:
		return fmt.Sprintf("callers of server %d: %s", i, one.front.cut(s.t, random))
	case Delay:
		return fmt.Sprintf("callers of server %d: %s", i, one.front.delay(s.t, random))
	case Step:
		return s.step(random)
	case CutStore:
		return fmt.Sprintf("database of server %d: %s", i, s.db.way(random, i).cut(s.t, random))
	case DelayStore:
		return fmt.Sprintf("database of server %d: %s", i, s.db.way(random, i).delay(s.t, random))
	case Restart:
		return s.db.restart(s.t, random)
	case Failover:
		return s.db.failover(s.t)
	default:
		s.t.Errorf("no fault is called %q", f)
		return ""
	}
}

func (one *server) kill(s *Stage, down time.Duration) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.process.Kill(s.t)
	one.kills = append(one.kills, time.Now())
	time.Sleep(down)
	one.process = one.start()
}

func (one *server) pause(s *Stage, d time.Duration) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.process.Pause(s.t)
	time.Sleep(d)
	one.process.Resume(s.t)
}

// step puts the clock a little or far ahead or back, for a while.
func (s *Stage) step(random *rand.Rand) string {
	by := between(random, -5*time.Second, 5*time.Second)
	if random.IntN(4) == 0 {
		by = between(random, -2*time.Hour, 2*time.Hour)
	}
	for _, d := range []time.Duration{by, 0} {
		if err := s.clock.step(d); err != nil {
			s.t.Error(err)
		}
		time.Sleep(between(random, 50*time.Millisecond, 500*time.Millisecond))
	}
	return fmt.Sprintf("clock of server 0 off by %v", by)
}

func (d *database) restart(t testing.TB, random *rand.Rand) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	how := pgtest.Immediate
	if random.IntN(2) == 0 {
		how = pgtest.Killed
	}
	down := between(random, 0, 300*time.Millisecond)
	d.primary.Down(t, how)
	time.Sleep(down)
	d.primary.Up(t)
	return fmt.Sprintf("database ended by SIG%s, down for %v", how, down)
}

func (d *database) failover(t testing.TB) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.standby == nil {
		return "no failover: the standby is the primary already"
	}
	d.primary.Down(t, pgtest.Killed)
	d.standby.Promote(t)
	d.primary, d.standby = d.standby, nil
	return "primary killed, standby promoted"
}
