package scenarios

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/internal/served"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// startBound is many times what a refusal takes: a process that is still there
// then hangs.
const startBound = time.Minute

// unusable is a database that cannot be served, and what must be said of it.
type unusable struct {
	store string
	says  []string
	// migrates: only serving is refused.
	migrates bool
}

// secret is a password that must be shown nowhere.
const secret = "s3cret"

func unusableDatabases(t *testing.T) map[string]unusable {
	strict := strictServer(t)
	with := func(change func(u *url.URL, q url.Values)) (store, host string) {
		u, err := url.Parse(strict)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		host = q.Get("host")
		u.User = url.UserPassword("keeper", "right")
		change(u, q)
		u.RawQuery = q.Encode()
		return u.String(), host
	}
	as := func(user, password string) (store, host string) {
		return with(func(u *url.URL, _ url.Values) { u.User = url.UserPassword(user, password) })
	}
	wrongPassword, host := as("keeper", secret)
	barred, _ := as("barred", secret)
	unknown, _ := as("nobody", secret)
	stranger, _ := as("stranger", secret)
	reader, _ := as("reader", secret)
	misnamed, _ := with(func(u *url.URL, _ url.Values) { u.Path = "/nonesuch" })
	readOnly, _ := with(func(_ *url.URL, q url.Values) { q.Set("default_transaction_read_only", "on") })
	silent := listener(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	noTLS := listener(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 8))
		_, _ = conn.Write([]byte("N")) // what a server without TLS answers
		_, _ = io.Copy(io.Discard, conn)
	})
	at := func(address, more string) string {
		return "postgres://keeper:" + secret + "@" + address + "/db" + more
	}
	return map[string]unusable{
		"nobody listens":         {store: at("127.0.0.1:1", ""), says: []string{"127.0.0.1:1", "refused"}},
		"nobody answers":         {store: at(silent, "?sslmode=disable"), says: []string{silent, "no answer in time"}},
		"no such host":           {store: at("nowhere.invalid", ""), says: []string{"nowhere.invalid", "no such host"}},
		"TLS is refused":         {store: at(noTLS, "?sslmode=require"), says: []string{noTLS, "refused TLS"}},
		"an address unread":      {store: at("host:port", ""), says: []string{"cannot be read"}},
		"no such database":       {store: misnamed, says: []string{host, "nonesuch", "does not exist"}},
		"no such user":           {store: unknown, says: []string{host, `"nobody"`, "authentication failed"}},
		"a wrong password":       {store: wrongPassword, says: []string{host, `"keeper"`, "authentication failed"}},
		"a user who is kept out": {store: barred, says: []string{host, `"barred"`, "rejects"}},
		"a user without rights":  {store: stranger, says: []string{host, "permission denied"}},
		"a user who may read":    {store: reader, says: []string{host, "may not write records"}, migrates: true},
		"read-only":              {store: readOnly, says: []string{host, "read-only"}},
	}
}

// strictServer gives a database, with the newest schema, of a server that asks for
// passwords.
func strictServer(t *testing.T) string {
	t.Helper()
	// Not in the test's own folder: the server runs as somebody else.
	hba, err := os.CreateTemp("", "okhba")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(hba.Name()) })
	_, err = hba.WriteString("local all postgres trust\nlocal all barred reject\nlocal all all scram-sha-256\n")
	if err := errors.Join(err, hba.Chmod(0o644), hba.Close()); err != nil {
		t.Fatal(err)
	}
	address := pgtest.Start(t, "hba_file="+hba.Name(), "fsync=off").Database(t)
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, sql := range []string{
		"CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'right'",
		"CREATE ROLE barred LOGIN PASSWORD '" + secret + "'",
		"CREATE ROLE stranger LOGIN PASSWORD '" + secret + "'",
		"CREATE ROLE reader LOGIN PASSWORD '" + secret + "'",
		"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return address
}

// listener gives the address of something that is no Postgres.
func listener(t *testing.T, meet func(net.Conn)) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				meet(conn)
			}()
		}
	}()
	return lis.Addr().String()
}

func TestADatabaseThatCannotBeUsedEndsTheProcessSoonWithTheReasonAndNoPassword(t *testing.T) {
	path, err := served.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range unusableDatabases(t) {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"migrate", "up"}, {"migrate", "status"}} {
				if c.migrates && args[0] == "migrate" {
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), startBound)
				defer cancel()
				cmd := exec.CommandContext(ctx, path, args...)
				cmd.Env = append(os.Environ(), "ONCEKEEPER_STORE="+c.store)
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				_ = cmd.Run() // how it ended is read below
				if code := cmd.ProcessState.ExitCode(); code != 1 {
					t.Errorf("%v exits with %d, want 1", args, code)
				}
				for _, want := range c.says {
					if !strings.Contains(said.String(), want) {
						t.Errorf("%v says %q, want %q", args, &said, want)
					}
				}
				if strings.Contains(said.String(), secret) {
					t.Errorf("%v shows the password: %s", args, &said)
				}
				if lines := strings.Count(said.String(), "\n"); lines > 3 {
					t.Errorf("%v says it in %d lines", args, lines)
				}
			}
		})
	}
}
