package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// fetched gives what the port answers.
func fetched(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestTheHTTPPortTellsThatItLivesIsReadyAndCounts(t *testing.T) {
	_, log := serving(t, "--store", "memory:", "--http", "127.0.0.1:0")
	address := log.await(t, "probes and metrics")["http"].(string)
	for path, want := range map[string]string{
		"/healthz": "ok\n", "/readyz": "ready\n", "/metrics": "oncekeeper_pebble_commit_records_count",
	} {
		if code, body := fetched(t, address, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s gives %d %q, want 200 and %q", path, code, body, want)
		}
	}
	if code, _ := fetched(t, address, "/debug/pprof/goroutine"); code != http.StatusNotFound {
		t.Errorf("without --pprof profiles answer with %d, want 404", code)
	}
}

func TestProfilesAreServedWhereTheyAreAskedFor(t *testing.T) {
	_, log := serving(t, "--store", "memory:", "--http", "127.0.0.1:0", "--pprof")
	address := log.await(t, "probes and metrics")["http"].(string)
	if code, _ := fetched(t, address, "/debug/pprof/goroutine"); code != http.StatusOK {
		t.Errorf("with --pprof profiles answer with %d, want 200", code)
	}
}

func TestABadHTTPPortIsRefusedAndNamesItsFlag(t *testing.T) {
	_, log := serving(t, "--store", "memory:", "--http", "127.0.0.1:0")
	busy := log.await(t, "probes and metrics")["http"].(string)
	for _, args := range [][]string{{"--http", busy}, {"--http", "nowhere"}, {"--http", "0.0.0.0:0", "--pprof"}} {
		code, _, stderr := command(t, append([]string{"serve", "--store", "memory:", "--listen", "127.0.0.1:0"}, args...)...)
		if code == 0 || !strings.Contains(stderr, "--http") {
			t.Errorf("%q exits with %d and says %q, want a failure that names --http", args, code, stderr)
		}
	}
}
