package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// documented is where docs/http.md has the server listen.
const documented = "127.0.0.1:8480"

// step is a command of the page, and what it says that it prints.
type step struct{ command, output string }

// steps reads the page's console blocks. A line that ends in a backslash goes on.
func steps(t *testing.T, page string) []step {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []step
	in, goesOn := false, false
	for line := range strings.SplitSeq(string(text), "\n") {
		switch {
		case line == "```console":
			in = true
		case line == "```":
			in = false
		case !in:
		case strings.HasPrefix(line, "$ "):
			found = append(found, step{command: line[2:]})
			goesOn = strings.HasSuffix(line, "\\")
		case goesOn:
			found[len(found)-1].command += "\n" + line
			goesOn = strings.HasSuffix(line, "\\")
		default:
			found[len(found)-1].output += line + "\n"
		}
	}
	return found
}

// printed is what a command printed, as the page shows it: with no dates, and no
// blank line at the end of a head.
func printed(out []byte) string {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(string(out), "\r", ""), "\n") {
		if !strings.HasPrefix(line, "Date: ") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func TestThePageSaysWhatCurlPrints(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("this test runs the page's commands: install curl (`make curl` does on Debian): %v", err)
	}
	keeper := oncetest.Start(t)
	handler, err := newAPI(keeper.Client())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	found := steps(t, "../../docs/http.md")
	if len(found) < 10 {
		t.Fatalf("the page has %d commands, want at least 10", len(found))
	}
	for _, s := range found {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(s.command, documented, server.Listener.Addr().String()))
		out, err := command.Output()
		cancel()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("%s\nfails: %v\n%s", s.command, err, failed.Stderr)
		}
		if got := strings.ReplaceAll(printed(out), server.Listener.Addr().String(), documented); got != strings.TrimSpace(s.output) {
			t.Errorf("%s\nprints:\n%s\nand the page says:\n%s", s.command, got, s.output)
		}
	}
	// Of what the page's first charge was answered, the cookie is not kept, nor who
	// asked.
	rec := keeper.Record(oncekeeper.Key{Tenant: "acme", Operation: "charges.create", ID: "order-17"})
	if rec == nil || rec.Outcome == nil || rec.Outcome.Response == nil {
		t.Fatalf("of order-17 is kept %+v", rec)
	}
	for _, entry := range rec.Outcome.Response.Metadata {
		if bytes.Contains(entry.Value, []byte("secret")) || bytes.Contains(entry.Value, []byte("token")) {
			t.Errorf("%s: %s is kept", entry.Name, entry.Value)
		}
	}
}

func TestTheServerServesUntilItIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- run(ctx, "127.0.0.1:0", "") }()
	stop()
	if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("it ends with %v", err)
	}
	if err := run(t.Context(), "no address", ""); err == nil {
		t.Error("it serves on no address")
	}
}
