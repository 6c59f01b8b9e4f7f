package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper/migrations"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

const password = "open-sesame"

// withPassword gives an address that has one, which the servers of tests ignore.
func withPassword(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}

// ops serves on store, with the port for probes, and gives that port's address too.
func ops(t *testing.T, store string, args ...string) (service, port string, log *lines, stop func()) {
	t.Helper()
	t.Setenv("ONCEKEEPER_STORE", store)
	service, log, stop = servingUntil(t, append([]string{"--http", "127.0.0.1:0"}, args...)...)
	return service, log.await(t, "probes and metrics")["http"].(string), log, stop
}

// becomes asks /readyz until it answers so, and gives the body that came with it. No
// body on the way may hold what is secret.
func becomes(t *testing.T, port string, want int) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		code, body := fetched(t, port, "/readyz")
		for _, secret := range []string{password, "postgres://", "host=", "oncekeeper_", "SELECT"} {
			if strings.Contains(body, secret) {
				t.Fatalf("/readyz tells %q: %q", secret, body)
			}
		}
		if code == want {
			return body
		}
		if time.Now().After(end) {
			t.Fatalf("/readyz is still %d %q after a minute, want %d", code, body, want)
		}
	}
}

func TestAServerWhoseDatabaseIsStoppedIsNotReadyUntilItIsBack(t *testing.T) {
	database := pgtest.Start(t, "fsync=off")
	_, port, _, _ := ops(t, withPassword(t, database.Database(t)))
	becomes(t, port, http.StatusOK)
	database.Down(t, pgtest.Immediate)
	if body, want := becomes(t, port, http.StatusServiceUnavailable), "not ready: the store cannot be reached"; !strings.HasPrefix(body, want) {
		t.Errorf("with the database down /readyz says %q, want %q", body, want)
	}
	if code, _ := fetched(t, port, "/healthz"); code != http.StatusOK {
		t.Errorf("with the database down /healthz gives %d, want 200: a restart mends nothing", code)
	}
	database.Up(t)
	becomes(t, port, http.StatusOK)
}

// session is one of the database's that is not the server's.
func session(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestAServerWhoseDatabaseHangsIsNotReadyUntilItAnswers(t *testing.T) {
	address := pgtest.Database(t)
	_, port, _, _ := ops(t, withPassword(t, address))
	becomes(t, port, http.StatusOK)
	other := session(t, address)
	execute(t, other, "BEGIN")
	execute(t, other, "LOCK TABLE oncekeeper_schema")
	becomes(t, port, http.StatusServiceUnavailable)
	execute(t, other, "ROLLBACK")
	becomes(t, port, http.StatusOK)
}

func TestAServerWhoseSchemaWasBrokenUnderItIsNotReady(t *testing.T) {
	address := pgtest.Database(t)
	_, port, _, _ := ops(t, withPassword(t, address))
	becomes(t, port, http.StatusOK)
	other := session(t, address)
	next := migrations.Newest() + 1
	execute(t, other, "INSERT INTO oncekeeper_schema (version_id, is_applied) VALUES ($1, true)", next)
	execute(t, other, "INSERT INTO oncekeeper_breaking_steps VALUES ($1)", next)
	if body, want := becomes(t, port, http.StatusServiceUnavailable), fmt.Sprintf("not ready: %v\n", migrations.ErrNewSchema); body != want {
		t.Errorf("/readyz says %q, want %q", body, want)
	}
}

func TestOnSIGTERMTheServerIsNotReadyWhileACallIsFinished(t *testing.T) {
	address := pgtest.Database(t)
	service, port, log, stop := ops(t, address)
	keeper := dialled(t, service)
	other := session(t, address)
	execute(t, other, "BEGIN")
	execute(t, other, "LOCK TABLE oncekeeper_records")
	answered := make(chan error, 1)
	go func() {
		_, err := keeper.Begin(context.WithoutCancel(t.Context()), &pb.BeginRequest{Key: &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"}})
		answered <- err
	}()
	for end, blocked := time.Now().Add(time.Minute), false; !blocked; {
		err := other.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'oncekeeper_records'::regclass)").Scan(&blocked)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the call does not reach the database: %v", err)
		}
	}
	stop()
	log.await(t, "stopping")
	if body, want := becomes(t, port, http.StatusServiceUnavailable), "not ready: the server stops\n"; body != want {
		t.Errorf("while a call is finished /readyz says %q, want %q", body, want)
	}
	if code, _ := fetched(t, port, "/healthz"); code != http.StatusOK {
		t.Errorf("while a call is finished /healthz gives %d, want 200", code)
	}
	select {
	case err := <-answered:
		t.Fatalf("the call was over before: %v", err)
	default:
	}
	execute(t, other, "ROLLBACK")
	if err := <-answered; err != nil {
		t.Errorf("the call under way was answered %v, want a grant", err)
	}
}

func TestNothingOnThePortTellsTheAddressOfTheDatabase(t *testing.T) {
	_, port, _, _ := ops(t, withPassword(t, pgtest.Database(t)), "--pprof")
	for _, path := range []string{
		"/", "/healthz", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol",
		"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1",
	} {
		if _, body := fetched(t, port, path); strings.Contains(body, password) || strings.Contains(body, "postgres://") {
			t.Errorf("%s tells the address of the database:\n%s", path, body)
		}
	}
	if code, _ := fetched(t, port, "/debug/pprof/cmdline"); code != http.StatusNotFound {
		t.Errorf("the command line, which may have an address with a password, is answered with %d, want 404", code)
	}
}

// away is a store that cannot be reached, of no kind that readiness knows.
type away struct{ storage.Store }

func (away) Ping(context.Context) error { return errors.New("dial 10.0.0.1: password=hunter2 refused") }

func TestAServerIsNotReadyWhereItsStoreIsAwayAndDoesNotRepeatWhatTheStoreSays(t *testing.T) {
	err := readiness(away{}, slog.New(slog.DiscardHandler))(t.Context())
	if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "10.0.0.1") {
		t.Errorf("readiness gave %v: it is not ready, and the store's words are for the log", err)
	}
}
