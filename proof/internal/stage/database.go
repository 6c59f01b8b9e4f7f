package stage

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// database is what three servers share, and how each of them reaches it.
type database struct {
	mu               sync.Mutex // held by what befalls it
	primary, standby *pgtest.Server

	name   string
	hosts  []string // where each Postgres is reached by TCP
	server [][]*proxy
}

func newDatabase(t testing.TB, standby bool) *database {
	t.Helper()
	settings := []string{"fsync=off", "autovacuum=off"}
	d := &database{primary: pgtest.Start(t, settings...)}
	u, err := url.Parse(d.primary.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	d.name = u.Path
	all := []*pgtest.Server{d.primary}
	if standby {
		d.standby = d.primary.Standby(t, "standby", settings...)
		d.primary.Set(t, "synchronous_standby_names", "standby")
		d.primary.Await(t, "EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
		all = append(all, d.standby)
	}
	for _, pg := range all {
		d.hosts = append(d.hosts, bridge(t, filepath.Join(pg.Dir(), ".s.PGSQL.5432")))
	}
	return d
}

// seenBy gives the address by which one more server reaches the database.
func (d *database) seenBy(t testing.TB) string {
	t.Helper()
	var ways []*proxy
	hosts := ""
	for i, host := range d.hosts {
		way := newProxy(t, host)
		ways = append(ways, way)
		if i > 0 {
			hosts += ","
		}
		hosts += way.address()
	}
	d.server = append(d.server, ways)
	return "postgres://postgres@" + hosts + d.name + "?sslmode=disable"
}

// way gives one of the ways from a server to the database.
func (d *database) way(random *rand.Rand, server int) *proxy {
	ways := d.server[server]
	return ways[random.IntN(len(ways))]
}

// bridge gives a TCP address that leads to a socket file: proxies speak TCP alone, and
// Postgres has a port of its own on each machine only once.
func bridge(t testing.TB, socket string) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			go join(in, socket)
		}
	}()
	return lis.Addr().String()
}

// join passes on what comes either way, until one side ends.
func join(in net.Conn, socket string) {
	out, err := net.Dial("unix", socket)
	if err != nil {
		_ = in.Close()
		return
	}
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pass(out, in) })
	both.Go(func() { pass(in, out) })
	both.Wait()
}
