package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Pooler gives the address of the same database behind a pgbouncer in transaction
// mode, which has two connections to it.
func Pooler(t testing.TB, database string) string {
	t.Helper()
	binary, err := exec.LookPath("pgbouncer")
	if err != nil {
		binary = "/usr/sbin/pgbouncer" // not in the path of everybody
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("pgbouncer is not installed: run make postgres, which installs Debian's: %v", err)
	}
	as, err := account()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := as.ownDir()
	if err != nil {
		t.Fatal(err)
	}
	host, port := u.Query().Get("host"), "5432"
	if host == "" {
		host = u.Hostname()
	}
	if u.Port() != "" {
		port = u.Port()
	}
	server := fmt.Sprintf("host=%s port=%s user=%s", host, port, u.User.Username())
	if password, ok := u.User.Password(); ok {
		server += " password=" + password
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	text := "[databases]\n* = " + server + "\n[pgbouncer]\n" +
		"unix_socket_dir = " + dir + "\nlisten_port = 6432\nauth_type = any\n" +
		"pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 1000\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := as.keep(dir, binary, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.Address = "postgres://postgres@" + u.Path + "?port=6432&host=" + url.QueryEscape(dir)
	if err := s.await(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("starting pgbouncer: %v\n%s", err, log)
	}
	return s.Address
}
