package pgtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a private Postgres: a data directory of its own, reached by a socket
// in it. It ends, and its directory with it, when Stop is called or this process
// ends, however it ends.
type Server struct {
	// Address of its database "postgres", as a superuser.
	Address string

	dir  string
	bin  string
	as   identity
	life io.WriteCloser // its end is the server's
	did  *bufio.Reader  // a line for each order
	gone chan error
}

// Start gives a server with settings ("fsync=on"), for a test that needs one to
// itself. It is stopped when the test ends.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Database gives a fresh database of s with the newest schema. It goes when the
// server does.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	database := name("test")
	err := run(s.Address, "CREATE DATABASE "+database+" ENCODING 'UTF8' TEMPLATE template0")
	if err == nil {
		err = migrate(Beside(s.Address, database))
	}
	if err != nil {
		t.Fatal(err)
	}
	return Beside(s.Address, database)
}

// Stop ends the server at once and removes what it wrote. Stopping twice does no
// harm.
func (s *Server) Stop() {
	_ = s.life.Close()
	for range s.gone { // until it is closed: the server ended
	}
}

// keeper runs a server as its child and does what its standard input says, a line
// at a time: end the server by a signal, or start it again. When its input ends,
// which it does with the process at the other end, it ends the server at once and
// cleans up.
const keeper = `dir=$1; shift
"$@" >"$dir/log" 2>&1 & server=$!
while read -r order; do
	case $order in
	start) "$@" >>"$dir/log" 2>&1 & server=$! ;;
	*) kill -"$order" $server; wait $server ;;
	esac
	echo done
done
kill -QUIT $server 2>/dev/null # Postgres: at once
kill -TERM $server 2>/dev/null # pgbouncer, which knows no other
wait $server
cd / && rm -rf "$dir"`

func start(settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	as, err := account()
	if err != nil {
		return nil, err
	}
	dir, err := as.ownDir()
	if err != nil {
		return nil, err
	}
	initdb := as.command(filepath.Join(bin, "initdb"), "--pgdata", filepath.Join(dir, "data"), "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return as.serve(bin, dir, settings)
}

// serve runs a Postgres on the data in dir.
func (as identity) serve(bin, dir string, settings []string) (*Server, error) {
	args := []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir}
	for _, set := range append([]string{"listen_addresses=", "max_connections=200", "timezone=Asia/Tokyo"}, settings...) {
		args = append(args, "-c", set)
	}
	s, err := as.keep(dir, args...)
	if err != nil {
		return nil, err
	}
	s.bin, s.Address = bin, "postgres://postgres@/postgres?host="+url.QueryEscape(dir)
	if err := s.await(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("starting %s: %w\n%s", filepath.Join(bin, "postgres"), err, bytes.TrimSpace(log))
	}
	return s, nil
}

// keep runs a server, whose files are in dir.
func (as identity) keep(dir string, server ...string) (*Server, error) {
	keep := as.command("/bin/sh", append([]string{"-c", keeper, "keeper", dir}, server...)...)
	life, err := keep.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	did, err := keep.StdoutPipe()
	if err == nil {
		err = keep.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{dir: dir, as: as, life: life, did: bufio.NewReader(did), gone: make(chan error, 1)}
	go func() {
		s.gone <- keep.Wait()
		close(s.gone)
	}()
	return s, nil
}

// ownDir gives a folder for a server's files. The path of a socket is bounded to
// some hundred bytes, so it is not in a test's own long directory.
func (as identity) ownDir() (string, error) {
	dir, err := os.MkdirTemp("", "okpg")
	if err == nil && as.credential != nil {
		err = os.Chown(dir, int(as.credential.Uid), int(as.credential.Gid))
	}
	return dir, err
}

// await waits until the server answers.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.Address)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case ended := <-s.gone:
			return fmt.Errorf("it ended: %w", cmp.Or(ended, err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// identity is who runs the server: it refuses to run as root.
type identity struct{ credential *syscall.Credential }

func account() (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return identity{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return identity{}, errors.New("these tests run as root, and Postgres does not: add a user named postgres, or run them as another")
}

func (as identity) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.credential, Setpgid: true}
	return cmd
}

// binariesVariable names the folder of the binaries to start, where it is not to be
// the newest installed.
const binariesVariable = "ONCEKEEPER_TEST_POSTGRES_BIN"

// binaries gives the folder of the server to start.
func binaries() (string, error) {
	if folder := os.Getenv(binariesVariable); folder != "" {
		return folder, nil
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/bin", "/usr/bin"} {
		folders, _ := filepath.Glob(pattern)
		slices.SortFunc(folders, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a)) })
		found = append(found, folders...)
	}
	for _, folder := range found {
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err == nil {
			return folder, nil
		}
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", fmt.Errorf("no Postgres server is installed: run make postgres, which installs Debian's, or set %s to the address of a server whose user may create databases", addressVariable)
}
