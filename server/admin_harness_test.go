package server_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/status"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
)

// operated is a server with both of its services, whose log the test reads.
type operated struct {
	*harness
	pb.AdminServiceClient
	log *logged
}

// logged is a log as text.
type logged struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grown <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// await returns once the log has text.
func (l *logged) await(t *testing.T, text string) {
	t.Helper()
	for ctx := testContext(t); !strings.Contains(l.String(), text); {
		select {
		case <-l.grown:
		case <-ctx.Done():
			t.Fatalf("the log lacks %q:\n%s", text, l)
		}
	}
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// onStores runs a test of what an operator sees, which is the same on every store.
func onStores(t *testing.T, test func(t *testing.T, h *operated)) {
	onEveryStore(t, func(t *testing.T, on records) { test(t, operate(t, on, nil)) })
}

// operate serves the records, by a server of its own each time.
func operate(t *testing.T, on records, config func(*server.Config)) *operated {
	t.Helper()
	log := &logged{grown: make(chan struct{}, 1)}
	h := start(t, on, setup{config: func(cfg *server.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		if config != nil {
			config(cfg)
		}
	}})
	return &operated{harness: h, AdminServiceClient: pb.NewAdminServiceClient(h.conn), log: log}
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
