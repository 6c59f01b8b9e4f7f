// Package stage runs real servers on real stores for a history, and does to them what
// befalls machines: kill -9, a stop, cut and slow connections, a database that is
// restarted or fails over, a clock that steps. It knows nothing of records.
package stage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/served"
)

// Store is what servers keep records in.
type Store string

const (
	// Pebble: one server, on a directory.
	Pebble Store = "pebble"
	// Postgres: three servers, on one database.
	Postgres Store = "postgres"
)

// Config is what is staged.
type Config struct {
	Store Store
	// Standby gives the database a synchronous standby, to fail over to.
	Standby bool
	// Steps has a server run with a clock that can be stepped: the only one, or the
	// first of three.
	Steps bool
	// Plant is the rule that servers leave out; empty for none.
	Plant string
	// DialOptions of the connections to the servers.
	DialOptions []grpc.DialOption
}

// Stage is servers, a store, and proxies between them and around them.
type Stage struct {
	t       testing.TB
	cfg     Config
	servers []*server
	db      *database
	conns   []grpc.ClientConnInterface
	clock   steppedClock
}

type server struct {
	mu      sync.Mutex // held by what befalls it
	start   func() *served.Process
	process *served.Process
	front   *proxy
	kills   []time.Time
}

// New starts the servers. They end with the test.
func New(t testing.TB, cfg Config) *Stage {
	t.Helper()
	s := &Stage{t: t, cfg: cfg}
	if cfg.Steps {
		s.clock.file = filepath.Join(t.TempDir(), "offset")
	}
	switch cfg.Store {
	case Pebble:
		dir := t.TempDir()
		s.add("pebble:" + filepath.Join(dir, "data"))
	case Postgres:
		s.db = newDatabase(t, cfg.Standby)
		for range 3 {
			s.add(s.db.seenBy(t))
		}
	default:
		t.Fatalf("no store is called %q", cfg.Store)
	}
	return s
}

// staged is the service with a clock that steps, or with a rule left out.
var staged = served.Builds("proof/internal/staged")

// Build builds what is staged, so that it takes no time later.
func Build(t testing.TB) {
	t.Helper()
	for _, build := range []func() (string, error){served.Binary, staged} {
		if _, err := build(); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Stage) add(store string) {
	t := s.t
	t.Helper()
	address := served.FreeAddress(t)
	one := &server{front: newProxy(t, address)}
	build, args := served.Binary, []string{"serve", "--store", store, "--listen", address, "--http", "off", "--sweep-interval", "0"}
	if s.cfg.Plant != "" || s.cfg.Steps && len(s.servers) == 0 {
		build, args = staged, []string{"-store", store, "-listen", address, "-clock", s.clock.file, "-plant", s.cfg.Plant}
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	one.start = func() *served.Process { return supervised(t, path, args) }
	one.process = one.start()
	s.servers = append(s.servers, one)
	conn, err := served.Dial(one.front.address(), s.cfg.DialOptions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.conns = append(s.conns, conn)
}

// supervised starts a server until it stays: one whose database is not there ends.
func supervised(t testing.TB, path string, args []string) *served.Process {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		p, err := served.Try(t, path, args...)
		if err == nil {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Conns lead to the servers, through what cuts and slows them.
func (s *Stage) Conns() []grpc.ClientConnInterface { return s.conns }

// Killed gives when a server was first known to be gone after a moment, where nothing
// that was asked of it can be done later: what is sent to a database may.
func (s *Stage) Killed(server int, after time.Time) (time.Time, bool) {
	one := s.servers[server]
	one.mu.Lock()
	defer one.mu.Unlock()
	for _, at := range one.kills {
		if s.cfg.Store == Pebble && at.After(after) {
			return at, true
		}
	}
	return time.Time{}, false
}

// Stop ends every server as an operator does, which must go well.
func (s *Stage) Stop() {
	for _, one := range s.servers {
		one.process.Stop(s.t)
		one.front.end()
	}
}

// clockSlack is how far a store's clock and the callers' may be apart on one machine:
// both are the host's, read with different roundings.
const clockSlack = 2 * time.Millisecond

// Bounds gives what the store's clock may have been between two moments of the host's.
func (s *Stage) Bounds(from, to time.Time) (earliest, latest oncekeeper.Instant) {
	back, ahead := s.clock.furthest()
	if s.cfg.Store != Pebble {
		back, ahead = 0, 0 // the clock of a server's host decides nothing
	}
	return oncekeeper.InstantOf(from.Add(back - clockSlack)), oncekeeper.InstantOf(to.Add(ahead + clockSlack))
}

// steppedClock is a host's clock that steps: a file says how far it is off.
type steppedClock struct {
	file string

	mu          sync.Mutex
	back, ahead time.Duration // the furthest that it ever was
}

func (c *steppedClock) furthest() (back, ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back, c.ahead
}

func (c *steppedClock) step(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back, c.ahead = min(c.back, by), max(c.ahead, by)
	fresh := c.file + ".new"
	if err := os.WriteFile(fresh, []byte(strconv.FormatInt(int64(by), 10)), 0o644); err != nil {
		return fmt.Errorf("stepping a clock: %w", err)
	}
	return os.Rename(fresh, c.file)
}

// between gives a random duration.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}
