package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper/clock"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// operated is a server with both of its services, whose log the test reads.
type operated struct {
	*harness
	pb.AdminServiceClient
	log *logged
}

// logged is a log as text.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// onStores runs a test of what an operator sees, which is the same on every store.
// Where the test moves time it says so, and runs on the store whose clock moves.
func onStores(t *testing.T, test func(t *testing.T, h *operated)) {
	t.Run("pebble", func(t *testing.T) { test(t, onPebbleAlone(t)) })
	t.Run("postgres", func(t *testing.T) {
		store, err := postgres.Open(testContext(t), postgres.Config{DSN: pgtest.Database(t)})
		if err != nil {
			t.Fatal(err)
		}
		test(t, operate(t, clock.NewManual(epoch), store))
	})
}

func onPebbleAlone(t *testing.T) *operated {
	t.Helper()
	clk := clock.NewManual(epoch)
	store, err := pebble.Open(pebble.Config{Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	return operate(t, clk, store)
}

// operate serves store, which it closes when the test ends.
func operate(t *testing.T, clk *clock.Manual, store storage.Store) *operated {
	t.Helper()
	log := &logged{}
	srv, err := server.New(server.Config{Store: store, Clock: clk, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:test",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := errors.Join(srv.Shutdown(testContext(t)), <-served, store.Close()); err != nil {
			t.Error(err)
		}
	})
	h := &harness{IdempotencyServiceClient: pb.NewIdempotencyServiceClient(conn), clock: clk, server: srv, conn: conn}
	return &operated{harness: h, AdminServiceClient: pb.NewAdminServiceClient(conn), log: log}
}

// look gives the record of key id, which must be there.
func (h *operated) look(t *testing.T, id string) *pb.KeyRecord {
	t.Helper()
	got, err := h.Get(testContext(t), &pb.GetRequest{Key: key(id)})
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return got.GetRecord()
}

// begun gives key id a state, by its callers' own calls, and the token that has it.
var begun = map[pb.KeyRecord_State]func(t *testing.T, h *operated, id string) int64{
	pb.KeyRecord_STATE_PENDING: func(t *testing.T, h *operated, id string) int64 {
		return h.grant(t, begin(id, "")).GetFencingToken()
	},
	pb.KeyRecord_STATE_ABANDONED: func(t *testing.T, h *operated, id string) int64 {
		return h.failed(t, begin(id, ""), pb.FailRequest_DISPOSITION_UNKNOWN)
	},
	pb.KeyRecord_STATE_UNRESOLVED: func(t *testing.T, h *operated, id string) int64 {
		req := begin(id, "")
		req.OnLeaseExpiry = pb.LeaseExpiry_LEASE_EXPIRY_HOLD
		return h.failed(t, req, pb.FailRequest_DISPOSITION_UNKNOWN)
	},
	pb.KeyRecord_STATE_RELEASED: func(t *testing.T, h *operated, id string) int64 {
		return h.failed(t, begin(id, ""), pb.FailRequest_DISPOSITION_RETRYABLE)
	},
	pb.KeyRecord_STATE_COMPLETED: func(t *testing.T, h *operated, id string) int64 {
		token := h.grant(t, begin(id, "")).GetFencingToken()
		h.complete(t, id, token, "done")
		return token
	},
	pb.KeyRecord_STATE_FAILED: func(t *testing.T, h *operated, id string) int64 {
		return h.failed(t, begin(id, ""), pb.FailRequest_DISPOSITION_FINAL)
	},
}

func (h *operated) failed(t *testing.T, req *pb.BeginRequest, as pb.FailRequest_Disposition) int64 {
	t.Helper()
	token := h.grant(t, req).GetFencingToken()
	h.fail(t, req.GetKey().GetId(), token, as)
	return token
}

// reasonOf gives the reason in err's details, and none for no error.
func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(interface{ GetReason() string }); ok {
			return info.GetReason()
		}
	}
	return status.Convert(err).Message()
}
