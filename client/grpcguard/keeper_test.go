package grpcguard_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// keeper is Oncekeeper itself, on the embedded store in memory and a clock that
// the test moves, with a client whose calls a test can break.
type keeper struct {
	*client.Client
	conn  *grpc.ClientConn
	clock *clock.Manual

	mu    sync.Mutex
	fault func(method string) error
	after func(method string)
	calls []string
}

// breakWith makes f decide about every call of the client; nil mends it.
func (k *keeper) breakWith(f func(method string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = f
}

// answered has f called when a call was answered, before its client knows.
func (k *keeper) answered(f func(method string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.after = f
}

func (k *keeper) seen(method string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, call := range k.calls {
		if call == method {
			n++
		}
	}
	return n
}

func (k *keeper) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	name := method[strings.LastIndexByte(method, '/')+1:]
	k.mu.Lock()
	k.calls = append(k.calls, name)
	fault, after := k.fault, k.after
	k.mu.Unlock()
	if fault != nil {
		if err := fault(name); err != nil {
			return err
		}
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if after != nil {
		after(name)
	}
	return err
}

func startKeeper(t testing.TB, changes ...func(*policy.Policy)) *keeper {
	t.Helper()
	k := &keeper{clock: clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))}
	store, err := pebble.Open(pebble.Config{Clock: k.clock, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Default()
	for _, change := range changes {
		change(&p)
	}
	srv, err := server.New(server.Config{Store: store, Policy: &p, Clock: k.clock})
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	conn := dial(t, listener, grpc.WithChainUnaryInterceptor(k.intercept))
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(srv.Shutdown(ctx), <-served, store.Close()); err != nil {
			t.Errorf("stopping Oncekeeper: %v", err)
		}
	})
	k.conn = conn
	k.connect()
	return k
}

// connect makes the client anew, with options.
func (k *keeper) connect(options ...client.Option) {
	k.Client = client.New(k.conn, append(options,
		client.WithBackoff(time.Millisecond, time.Millisecond), client.WithLogger(slog.New(slog.DiscardHandler)))...)
}

// record reads what is kept of a key.
func (k *keeper) record(t testing.TB, operation, id string) *client.Record {
	t.Helper()
	rec, err := k.Get(t.Context(), oncekeeper.Key{Tenant: "acme", Operation: operation, ID: id})
	if err != nil {
		t.Fatalf("reading the record of %s: %v", id, err)
	}
	return rec
}
