package inprocess_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

var key = oncekeeper.Key{Tenant: "acme", Operation: "invoices.send", ID: "invoice-7"}

func inDirectory(t *testing.T, dir string) *pebble.Store {
	t.Helper()
	store, err := pebble.Open(pebble.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func open(t *testing.T, store storage.Store) *inprocess.Keeper {
	t.Helper()
	k, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, k) })
	return k
}

func closed(t *testing.T, k *inprocess.Keeper) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := k.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// sending runs the operation, which must not have run more than once so far.
func sending(t *testing.T, c *client.Client, runs *int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := client.Do(ctx, c, key, func(context.Context, *client.Attempt) (string, error) {
		*runs++
		return "sent", nil
	})
	if err != nil || got != "sent" || *runs != 1 {
		t.Fatalf("Do gives %q, %v after %d runs; want the one run's answer", got, err, *runs)
	}
}

func TestWhatADirectoryHoldsOutlivesTheProcess(t *testing.T) {
	dir, runs := t.TempDir(), 0
	first := open(t, inDirectory(t, dir))
	sending(t, first.Client(), &runs)
	if _, err := pebble.Open(pebble.Config{Dir: dir}); err == nil {
		t.Error("a second one opened the directory while the first has it")
	}
	closed(t, first)
	sending(t, open(t, inDirectory(t, dir)).Client(), &runs)
}

func TestProcessesThatShareADatabaseRunAKeyOnce(t *testing.T) {
	dsn, runs := pgtest.Database(t), 0
	for range 2 {
		store, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		sending(t, open(t, store).Client(), &runs)
	}
}

// The one line that changes: where the client's connection leads to.
func TestAServiceTakesOverWhereTheLibraryLeftOff(t *testing.T) {
	dir, runs := t.TempDir(), 0
	library := open(t, inDirectory(t, dir))
	sending(t, library.Client(), &runs)
	closed(t, library)

	store := inDirectory(t, dir)
	defer store.Close()
	service, err := server.New(server.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- service.Serve(lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	sending(t, client.New(conn), &runs)
	_ = conn.Close()
	if err := errors.Join(service.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

func TestAWrongConfigurationLeavesTheStoreToItsOwner(t *testing.T) {
	if _, err := inprocess.Open(inprocess.Config{}); err == nil || !strings.Contains(err.Error(), "Store is required") {
		t.Errorf("without a store Open gives %v", err)
	}
	store := inDirectory(t, t.TempDir())
	if _, err := inprocess.Open(inprocess.Config{Store: store, Policy: &policy.Policy{}}); err == nil {
		t.Error("a policy that gives nothing is taken")
	}
	if err := errors.Join(store.Ping(t.Context()), store.Close()); err != nil {
		t.Errorf("the store was not left open: %v", err)
	}
}

func TestCloseAnswersThoseWhoWaitAndFailsThoseWhoComeLater(t *testing.T) {
	moved := clock.NewManual(time.Now())
	store, err := pebble.Open(pebble.Config{Clock: moved})
	if err != nil {
		t.Fatal(err)
	}
	k, err := inprocess.Open(inprocess.Config{Store: store, Clock: moved})
	if err != nil {
		t.Fatal(err)
	}
	c := k.Client(client.WithRetryBudget(0, 0))
	if held, err := c.Begin(t.Context(), client.BeginRequest{Key: key}); err != nil || held.Grant == nil {
		t.Fatalf("Begin: %+v, %v", held, err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Begin(t.Context(), client.BeginRequest{Key: key, Wait: 10 * time.Second})
		waiting <- err
	}()
	// The client's time-out, the end of the wait, and the end of the lease.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := moved.AwaitTimers(ctx, 3); err != nil {
		t.Fatal(err)
	}
	closed(t, k)
	if err := <-waiting; !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("whoever waited is told %v; want that the service is unavailable", err)
	}
	if _, err := c.Get(t.Context(), key); err == nil {
		t.Error("a closed service answers")
	}
	closed(t, k)
}

// stuck is a store that does not close until it is let.
type stuck struct {
	storage.Store
	release, closed chan struct{}
}

func (s stuck) Close() error {
	<-s.release
	defer close(s.closed)
	return s.Store.Close()
}

func TestCloseLeavesAStoreThatHangsWhenItsTimeIsOver(t *testing.T) {
	store := stuck{Store: inDirectory(t, t.TempDir()), release: make(chan struct{}), closed: make(chan struct{})}
	k, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("no more time")
	cancel(impatient)
	if err := k.Close(ctx); !errors.Is(err, impatient) {
		t.Errorf("Close gives %v; want %v", err, impatient)
	}
	close(store.release)
	<-store.closed
}

// A request's limits are the service's, here too, and its errors the same sentinels.
func TestTheServicesRefusalsReachTheCallerAsSentinels(t *testing.T) {
	c := open(t, inDirectory(t, t.TempDir())).Client()
	_, err := c.Begin(t.Context(), client.BeginRequest{Key: oncekeeper.Key{Tenant: "acme", Operation: "o", ID: " k"}})
	if !errors.Is(err, oncekeeper.ErrInvalidRequest) || len(client.FieldViolations(err)) != 1 {
		t.Errorf("a key with white space before it gives %v", err)
	}
	if _, err := c.Complete(t.Context(), key, 1, nil); !errors.Is(err, oncekeeper.ErrKeyNotFound) {
		t.Errorf("Complete of nothing gives %v", err)
	}
}
