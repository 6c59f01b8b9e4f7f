package httpguard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

const chargeOp = "charges.create"

// keeper is Oncekeeper on a clock that the test moves, with a client whose calls a
// test can break.
type keeper struct {
	*oncetest.Server
	*client.Client

	mu    sync.Mutex
	fault func(method string) error
	after func(method string)
}

func startKeeper(t testing.TB, options ...oncetest.Option) *keeper {
	t.Helper()
	k := &keeper{Server: oncetest.Start(t, options...)}
	k.connect()
	return k
}

// connect makes the client anew, with options.
func (k *keeper) connect(options ...client.Option) {
	conn := k.Dial(grpc.WithChainUnaryInterceptor(k.intercept))
	k.Client = client.New(conn, append(options,
		client.WithBackoff(time.Millisecond, time.Millisecond), client.WithLogger(slog.New(slog.DiscardHandler)))...)
}

func (k *keeper) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	name := method[strings.LastIndexByte(method, '/')+1:]
	k.mu.Lock()
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

// charge is the key of a charge of acme's.
func charge(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "acme", Operation: chargeOp, ID: id}
}

// state reads what is kept of a charge's key.
func (k *keeper) state(t testing.TB, id string) oncekeeper.State {
	t.Helper()
	rec := k.Record(charge(id))
	if rec == nil {
		t.Fatalf("there is no record of %q", id)
	}
	return rec.State
}

func acme(*http.Request) (string, error) { return "acme", nil }

// guarded is a handler behind a guard, and a client of it.
type guarded struct {
	*httptest.Server
	guard *httpguard.Guard
	ran   atomic.Int64
}

func (g *guarded) runs() int { return int(g.ran.Load()) }

// handler guards next as charges.create, by a guard that waits for nobody unless
// cfg says otherwise.
func (g *guarded) handler(t testing.TB, k *keeper, cfg httpguard.Config, next http.HandlerFunc, options []httpguard.Option) http.Handler {
	t.Helper()
	if cfg.Tenant == nil {
		cfg.Tenant = acme
	}
	if cfg.Wait == 0 {
		cfg.Wait = -1
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	guard, err := httpguard.New(k.Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.guard = guard
	return guard.Operation(chargeOp, options...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ran.Add(1)
		next(w, r)
	}))
}

// serve serves next behind a guard, under every path.
func serve(t testing.TB, k *keeper, cfg httpguard.Config, next http.HandlerFunc, options ...httpguard.Option) *guarded {
	t.Helper()
	g := &guarded{}
	g.Server = startServer(t, g.handler(t, k, cfg, next, options))
	return g
}

// reply is all that a caller sees of an answer.
type reply struct {
	err    error // of reading the body too
	status int
	header http.Header
	body   string
	// trailer comes behind the body.
	trailer http.Header
}

func (r reply) replayed() bool { return r.header.Get("Idempotency-Replayed") == "true" }

// sent changes a request before it is sent.
type sent func(*http.Request)

func withHeader(name string, values ...string) sent {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

// request is a charge with a key, which may be "" for none.
func (g *guarded) request(t testing.TB, key, body string, changes ...sent) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

// do sends a request, and fails no test.
func (g *guarded) do(r *http.Request) reply {
	response, err := g.Client().Transport.RoundTrip(r)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{err: err, status: response.StatusCode, header: response.Header, body: string(body), trailer: response.Trailer}
}

// charge sends one charge.
func (g *guarded) charge(t testing.TB, key string, changes ...sent) reply {
	t.Helper()
	return g.send(t, key, `{"amount": 5}`, changes...)
}

func (g *guarded) send(t testing.TB, key, body string, changes ...sent) reply {
	t.Helper()
	got := g.do(g.request(t, key, body, changes...))
	if got.err != nil {
		t.Fatalf("the request with %q: %v", key, got.err)
	}
	return got
}

// mustBe fails the test where an answer has another status.
func mustBe(t testing.TB, got reply, status int) {
	t.Helper()
	if got.err != nil || got.status != status {
		t.Fatalf("the answer is %d %q (%v), want %d", got.status, got.body, got.err, status)
	}
}

// problem is a refusal as its caller reads it.
type problem struct {
	Type, Title, Detail, Reason, Operation, Resource string
	Status                                           int
	ResponseStatus                                   int   `json:"response_status"`
	FencingToken                                     int64 `json:"fencing_token"`
	AttemptNumber                                    int32 `json:"attempt_number"`
}

// refusal reads an answer as a refusal of the guard, and fails the test where it is
// none of that status and type.
func refusal(t testing.TB, got reply, status int, kind string) problem {
	t.Helper()
	var p problem
	decoder := json.NewDecoder(bytes.NewReader([]byte(got.body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil || got.err != nil {
		t.Fatalf("the answer is %d %q (%v), want a problem %s", got.status, got.body, got.err, kind)
	}
	if got.status != status || p.Status != status || p.Type != kind || got.header.Get("Content-Type") != "application/problem+json" ||
		p.Title == "" || p.Operation != chargeOp || got.header.Get("Oncekeeper-Reason") != p.Reason {
		t.Fatalf("the answer is %d %q with the header %v, want a problem with %d and %s", got.status, got.body, got.header, status, kind)
	}
	return p
}

// answers gives a handler that answers with a status and body.
func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// startServer serves h, and tells nobody of its faults.
func startServer(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// noServer is for requests that are given to a handler without one.
var noServer = httptest.Server{URL: "http://charges.test"}

// writer is a ResponseWriter that takes any status code.
type writer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newWriter() *writer { return &writer{header: http.Header{}} }

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(200)
	return w.body.Write(p)
}
