package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

// serving runs serve in this process and gives its address once it listens.
func serving(t *testing.T, args ...string) (address string, log *lines) {
	t.Helper()
	address, log, _ = servingUntil(t, args...)
	return address, log
}

// servingUntil is serving until stop is called, which is as SIGTERM, or the test ends.
func servingUntil(t *testing.T, args ...string) (address string, log *lines, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	log = &lines{grown: make(chan struct{}, 1)}
	exit := make(chan int, 1)
	go func() {
		exit <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--http", "off"}, args...), console{out: io.Discard, err: log})
	}()
	t.Cleanup(func() {
		stop()
		if code := <-exit; code != 0 {
			t.Errorf("serve exited with %d: %s", code, log)
		}
	})
	first := log.await(t, "listening")
	return first["address"].(string), log, stop
}

// lines is a log as it grows.
type lines struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grown <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await gives the first line whose message begins so.
func (l *lines) await(t *testing.T, msg string) map[string]any {
	t.Helper()
	for {
		for line := range strings.Lines(l.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("off a terminal a line of log is %q: %v", line, err)
			}
			if strings.HasPrefix(fields["msg"].(string), msg) {
				return fields
			}
		}
		select {
		case <-l.grown:
		case <-time.After(time.Minute):
			t.Fatalf("no line begins with %q:\n%s", msg, l)
		}
	}
}

func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, console{in: strings.NewReader(""), out: &out, err: &errs})
	return code, out.String(), errs.String()
}

func TestGetShowsARecordAndTellsWhereThereIsNone(t *testing.T) {
	address, _ := serving(t, "--store", "memory:")
	code, _, stderr := command(t, "get", "--address", address, "acme", "pay", "1")
	if code != exitNotFound || !strings.Contains(stderr, `no record of "1"`) {
		t.Errorf("get of a missing record exits with %d: %s", code, stderr)
	}

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	keeper, key := pb.NewIdempotencyServiceClient(conn), &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"}
	begun, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: key, Holder: "pod-7"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = keeper.Complete(t.Context(), &pb.CompleteRequest{
		Key: key, FencingToken: begun.GetGrant().GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("paid"), ContentType: "text/plain"},
	})
	if err != nil {
		t.Fatal(err)
	}

	code, stdout, stderr := command(t, "get", "--address", address, "acme", "pay", "1")
	for _, want := range []string{"COMPLETED", "pod-7", "4 bytes text/plain: paid", "expires"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table lacks %q (exit %d, %s):\n%s", want, code, stderr, stdout)
		}
	}
	code, stdout, stderr = command(t, "get", "--json", "--address", address, "acme", "pay", "1")
	var rec struct{ State, Holder string }
	if err := json.Unmarshal([]byte(stdout), &rec); err != nil || code != 0 || rec.State != "STATE_COMPLETED" || rec.Holder != "pod-7" {
		t.Errorf("--json gives %q (exit %d, %s, %v)", stdout, code, stderr, err)
	}
}

func TestGetTellsWhatIsWrong(t *testing.T) {
	address, _ := serving(t, "--store", "memory:")
	for want, args := range map[string][]string{
		"key.id":                        {"get", "--address", address, "acme", "pay", " 1"},
		"is the service running there?": {"get", "--address", "127.0.0.1:1", "acme", "pay", "1"},
		"give it longer with --timeout": {"get", "--address", address, "--timeout", "0s", "acme", "pay", "1"},
		"expected \"<operation> <id>\"": {"get", "acme"},
		"unknown flag --nonsense":       {"get", "--nonsense", "acme", "pay", "1"},
		"oncekeeper --help":             {"fetch"},
		"--drain: expected duration":    {"serve", "--drain", "soon"},
	} {
		code, _, stderr := command(t, args...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v exits with %d and says %q, want %q", args, code, stderr, want)
		}
	}
}

func TestServeSaysWhereItListensWhereDataLiesAndWhatToTry(t *testing.T) {
	dir := t.TempDir()
	address, log := serving(t, "--store", "pebble:"+dir)
	log.await(t, "records lie in "+dir)
	if next := log.await(t, "try next"); !strings.Contains(next["command"].(string), address) {
		t.Errorf("what to try next does not name the address: %v", next)
	}
	code, _, stderr := command(t, "serve", "--listen", "127.0.0.1:0", "--store", "pebble:"+dir)
	if code != exitFailed || !strings.Contains(stderr, "in use by another oncekeeper") {
		t.Errorf("a second serve on one directory exits with %d: %s", code, stderr)
	}
	code, _, stderr = command(t, "serve", "--listen", address, "--store", "memory:")
	if code != exitFailed || !strings.Contains(stderr, "address already in use") {
		t.Errorf("a second serve on one address exits with %d: %s", code, stderr)
	}
}

func TestServeRefusesWhatOthersCouldReach(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.test:0"} {
		code, _, stderr := command(t, "serve", "--store", "memory:", "--listen", listen)
		if code != exitUsage || !strings.Contains(stderr, "--insecure") {
			t.Errorf("--listen %s exits with %d: %s", listen, code, stderr)
		}
	}
	address, _ := serving(t, "--store", "memory:", "--listen", "0.0.0.0:0", "--insecure")
	if !strings.Contains(address, ":") {
		t.Errorf("with --insecure it listens on %q", address)
	}
}

func TestServeRefusesAStoreThatItDoesNotKnowAndKeepsItsPasswordSecret(t *testing.T) {
	for _, store := range []string{"mysql://u:secret@host/db", "pebble:", "memory", "secret", "host=h user=u password=secret@1 dbname=d", "host=h password=secret@1 hostaddr=::1"} {
		code, _, stderr := command(t, "serve", "--store", store)
		if code != exitUsage || !strings.Contains(stderr, "pebble:DIR") || strings.Contains(stderr, "secret@") {
			t.Errorf("--store %s exits with %d: %s", store, code, stderr)
		}
	}
}

func TestVersionAndHelpSucceed(t *testing.T) {
	if code, out, stderr := command(t, "version"); code != 0 || !strings.HasPrefix(out, "oncekeeper ") {
		t.Errorf("version exits with %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := command(t, "--help"); code != 0 || !strings.Contains(out, "serve") {
		t.Errorf("--help exits with %d: %s%s", code, out, stderr)
	}
}

func TestWhatCallersStoredMovesNoCursor(t *testing.T) {
	var out bytes.Buffer
	rec := &pb.KeyRecord{
		Key:     &pb.Key{Tenant: "acme", Operation: "pay", Id: "1"},
		Outcome: &pb.Outcome{Result: &pb.Outcome_Status{Status: &pb.StoredStatus{Code: 9, Message: "no\x1b[2J\x00"}}},
	}
	if err := printTable(&out, rec); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x00") || !strings.Contains(out.String(), `no\x1b[2J\x00`) {
		t.Errorf("the table is %q", out.String())
	}
}

func TestServeFailsWhenItsStoreFailed(t *testing.T) {
	store := failing{}
	for name, broken := range map[string]chan error{"while it serves": make(chan error, 1), "while it stops": make(chan error, 1)} {
		ctx, stop := context.WithCancel(t.Context())
		c := serveCmd{Listen: "127.0.0.1:0", Drain: time.Second}
		if name == "while it serves" {
			broken <- errStoreFailed
		} else {
			stop()
		}
		err := c.serve(ctx, store, policy.BuiltIn(), trusted{}, "nowhere", slog.New(slog.DiscardHandler), broken)
		if err = errors.Join(err, c.close(store)); !errors.Is(err, errStoreFailed) {
			t.Errorf("%s: serve gives %v", name, err)
		}
		stop()
	}
}

var errStoreFailed = errors.New("the disk is gone")

// failing is a store that has failed.
type failing struct{ storage.Store }

func (failing) Close() error { return errStoreFailed }
