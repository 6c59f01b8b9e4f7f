package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestReadyEndsWellWhereTheServiceCanAnswer(t *testing.T) {
	_, log := serving(t, "--store", "memory:", "--http", "0.0.0.0:0")
	_, port, err := net.SplitHostPort(log.await(t, "probes and metrics")["http"].(string))
	if err != nil {
		t.Fatal(err)
	}
	for _, http := range []string{"127.0.0.1:" + port, "0.0.0.0:" + port, ":" + port} {
		if code, stdout, stderr := command(t, "ready", "--http", http); code != 0 || stdout != "ready\n" {
			t.Errorf("ready --http %s exits with %d: %s%s", http, code, stdout, stderr)
		}
	}
}

func TestReadyFailsAndSaysWhyWhereTheServiceCannotAnswer(t *testing.T) {
	database := pgtest.Start(t, "fsync=off")
	_, port, _, _ := ops(t, database.Database(t))
	database.Down(t, pgtest.Immediate)
	becomes(t, port, http.StatusServiceUnavailable)
	code, _, stderr := command(t, "ready", "--http", port)
	if code != exitFailed || !strings.Contains(stderr, "answers 503: not ready: the store cannot be reached") {
		t.Errorf("with the database down ready exits with %d: %s", code, stderr)
	}
}

func TestReadyFailsWhereNothingAnswers(t *testing.T) {
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hung.Close()
	for want, args := range map[string][]string{
		"is the service running there?": {"--http", "127.0.0.1:1"},
		"give it longer with --timeout": {"--http", strings.TrimPrefix(hung.URL, "http://"), "--timeout", "50ms"},
		"--http is off":                 {"--http", "off"},
		"give host:port":                {"--http", "nowhere"},
	} {
		code, stdout, stderr := command(t, append([]string{"ready"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("ready %q exits with %d: %s%s, want %q", args, code, stdout, stderr, want)
		}
	}
}

func TestReadyAsksThisMachineWhereServeListensOnEveryAddress(t *testing.T) {
	for listen, want := range map[string]string{
		":8461": "127.0.0.1:8461", "0.0.0.0:8461": "127.0.0.1:8461", "[::]:8461": "[::1]:8461",
		"127.0.0.1:8461": "127.0.0.1:8461", "10.0.0.7:8461": "10.0.0.7:8461", "keeper.internal:8461": "keeper.internal:8461",
	} {
		if got := onThisHost(listen); got != want {
			t.Errorf("what listens on %s is asked at %s, want %s", listen, got, want)
		}
	}
}
