package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Dir is the folder of the server's socket, which addresses name as a host.
func (s *Server) Dir() string { return s.dir }

// Down ends the server and keeps its data. Where it has a chance to, it first tells
// its clients.
func (s *Server) Down(t testing.TB, how Ending) {
	t.Helper()
	if how == Killed {
		s.killChildren(t)
	}
	s.order(t, string(how))
}

// Ending is how a server ends: by a signal to its first process.
type Ending string

const (
	// Fast ends every session and sends what is written to the standbys.
	Fast Ending = "INT"
	// Immediate is pg_ctl stop -m immediate.
	Immediate Ending = "QUIT"
	// Killed is kill -9 of every process.
	Killed Ending = "KILL"
)

// Up starts the server again on the data that it has, and returns when it answers.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	s.order(t, "start")
	if err := s.await(); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		t.Fatalf("starting a server again: %v\n%s", err, log)
	}
}

func (s *Server) order(t testing.TB, order string) {
	t.Helper()
	_, err := fmt.Fprintln(s.life, order)
	if err == nil {
		_, err = s.did.ReadString('\n')
	}
	if err != nil {
		t.Fatalf("telling a server %s: %v", order, err)
	}
}

// Standby gives a standby of s, named so, as a copy of its data; s is down
// meanwhile. It is stopped when the test ends.
func (s *Server) Standby(t testing.TB, name string, settings ...string) *Server {
	t.Helper()
	s.Down(t, Fast)
	dir, err := s.as.ownDir()
	if err != nil {
		t.Fatal(err)
	}
	copied := s.as.command("cp", "-a", filepath.Join(s.dir, "data"), dir)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("copying a server's data: %v\n%s", err, out)
	}
	s.Up(t)
	follow(t, s.as, dir, s, name)
	standby, err := s.as.serve(s.bin, dir, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Stop)
	return standby
}

// Follow makes a server that is down a standby of primary, named so, once it is up.
func (s *Server) Follow(t testing.TB, primary *Server, name string) {
	t.Helper()
	follow(t, s.as, s.dir, primary, name)
}

func follow(t testing.TB, as identity, dir string, primary *Server, name string) {
	t.Helper()
	settings := fmt.Sprintf("primary_conninfo = 'host=%s user=postgres application_name=%s'\n", primary.dir, name)
	for file, text := range map[string]string{"postgresql.auto.conf": settings, "standby.signal": ""} {
		path := filepath.Join(dir, "data", file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if as.credential != nil {
			if err := os.Chown(path, int(as.credential.Uid), int(as.credential.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Promote makes a standby a primary, and returns when it takes writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if err := run(s.Address, "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, "NOT pg_is_in_recovery()")
}

// Set changes a setting of the running server, for the sessions that are open too.
func (s *Server) Set(t testing.TB, name, value string) {
	t.Helper()
	if err := run(s.Address, "ALTER SYSTEM SET "+name+" = '"+value+"'", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, "current_setting('"+name+"') = '"+value+"'")
}

// Await returns once a condition, in SQL, is true on the server. It looks from a new
// session each time.
func (s *Server) Await(t testing.TB, condition string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var is bool
		conn, err := pgx.Connect(ctx, s.Address)
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT "+condition).Scan(&is)
			_ = conn.Close(ctx)
		}
		if is {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is not true after a minute (%v)", condition, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Hosts gives the address of a database on the first of several servers that takes
// writes.
func Hosts(t testing.TB, database string, servers ...*Server) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.dir)
	}
	q := u.Query()
	q.Set("host", strings.Join(hosts, ","))
	u.RawQuery = q.Encode()
	return u.String()
}

// killChildren kills a server's processes but the first, which is stopped so that it
// starts no more, and returns when they hold none of its memory: until then no other
// first process would start.
func (s *Server) killChildren(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	parent, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(parent, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stopped, children := false, 0
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		if len(stats) == 0 {
			return // no Linux: they end by themselves, a little later
		}
		for _, stat := range stats {
			pid := filepath.Base(filepath.Dir(stat))
			state, of := process(stat)
			switch {
			case pid == first:
				stopped = state == "T"
			case of == first && state != "Z":
				children++
				child, _ := strconv.Atoi(pid)
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
		}
		if stopped && children == 0 {
			return
		}
	}
	t.Fatal("the processes of a server do not end")
}

// process gives the state and the parent of one, as Linux tells them.
func process(stat string) (state, parent string) {
	text, _ := os.ReadFile(stat)
	_, rest, _ := strings.Cut(string(text), ") ") // PID (COMMAND) STATE PARENT …
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return "", ""
	}
	return fields[0], fields[1]
}
