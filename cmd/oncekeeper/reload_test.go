package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// watched is a file that a reloader has been given, and what came of it.
type watched struct {
	*reloader
	file *reloaded
	path string
	used []string
	log  *lines
}

// watch joins a file, whose texts are used unless they say bad.
func watch(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{path: path, log: &lines{grown: make(chan struct{}, 1)}}
	w.reloader = &reloader{clock: clock.NewManual(epoch), log: slog.New(slog.NewJSONHandler(w.log, nil))}
	w.file = &reloaded{what: "policy", paths: []string{path}, use: func(texts [][]byte) (string, error) {
		if strings.Contains(string(texts[0]), "bad") {
			return "", errors.New("line 1: it is bad")
		}
		w.used = append(w.used, string(texts[0]))
		return "all", nil
	}}
	if err := w.join(t.Context(), w.file); err != nil {
		t.Fatal(err)
	}
	return w
}

// looks lets n looks be due.
func (w *watched) looks(n int) {
	for range n {
		w.look(context.Background(), w.file)
	}
}

func (w *watched) want(t *testing.T, used ...string) {
	t.Helper()
	if got := strings.Join(w.used, "|"); got != strings.Join(used, "|") {
		t.Fatalf("used %q, want %q\n%s", w.used, used, w.log)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFileThatChangedIsUsedOnceTwoLooksFindTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, "one")
	w := watch(t, path)
	w.looks(3)
	w.want(t, "one")
	write(t, path, "tw") // half written
	w.looks(1)
	write(t, path, "two")
	w.looks(1)
	w.want(t, "one")
	w.looks(3)
	w.want(t, "one", "two")
}

func TestAFileThatIsRenamedOverIsUsed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	write(t, path, "one")
	w := watch(t, path)
	write(t, path+"~", "two")
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
	w.looks(2)
	w.want(t, "one", "two")
}

// Kubernetes mounts a ConfigMap as a link to a link to a directory, and turns the
// inner one.
func TestAFileBehindALinkThatIsTurnedIsUsed(t *testing.T) {
	dir := t.TempDir()
	for version, text := range map[string]string{"..v1": "one", "..v2": "two"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "policy.yaml"), text)
	}
	link := func(to, at string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, at+".new"), os.Rename(at+".new", at)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "policy.yaml")
	link("..v1", filepath.Join(dir, "..data"))
	link(filepath.Join("..data", "policy.yaml"), path)
	w := watch(t, path)
	link("..v2", filepath.Join(dir, "..data"))
	if err := os.RemoveAll(filepath.Join(dir, "..v1")); err != nil {
		t.Fatal(err)
	}
	w.looks(2)
	w.want(t, "one", "two")
}

func TestAFileThatIsGoneForAMomentIsNoFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, "one")
	w := watch(t, path)
	remove := func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	w.looks(1)
	write(t, path, "one")
	w.looks(2)
	if said := w.log.String(); strings.Contains(said, "refused") {
		t.Errorf("it said %s", said)
	}
	remove()
	w.looks(5)
	if said := w.log.String(); strings.Count(said, "refused") != 1 || !strings.Contains(said, "no such file") {
		t.Errorf("of a file that is gone it said %s, want it once", said)
	}
	write(t, path, "two")
	w.looks(2)
	w.want(t, "one", "two")
}

func TestWhatIsRefusedIsToldOnceAndTheOneInUseStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, "one")
	w := watch(t, path)
	write(t, path, "bad")
	w.looks(5)
	w.want(t, "one")
	if said := w.log.String(); strings.Count(said, "line 1: it is bad") != 1 {
		t.Errorf("it said %s, want the fault once", said)
	}
	write(t, path, "one")
	w.looks(3)
	w.want(t, "one", "one")
}

func TestHangupReadsAtOnceAndSaysSoAlsoWhereNothingChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, "one")
	w := watch(t, path)
	write(t, path, "two")
	w.reload(t.Context())
	w.reload(t.Context())
	w.looks(2)
	w.want(t, "one", "two", "two")
	if said := w.log.String(); strings.Count(said, "read again") != 2 {
		t.Errorf("it said %s", said)
	}
}

func TestWhatIsNoFileDoesNotJoin(t *testing.T) {
	r := &reloader{clock: clock.NewManual(epoch), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, path := range []string{t.TempDir(), "/dev/zero", "nowhere.yaml"} {
		if err := r.join(t.Context(), &reloaded{what: "policy", paths: []string{path}}); err == nil || len(r.files) > 0 {
			t.Errorf("%s has joined: %v", path, err)
		}
	}
}

func TestLooksAreDueAsTheClockMovesAndHangupsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, "one")
	w := watch(t, path)
	clk := w.clock.(*clock.Manual)
	hangups := make(chan os.Signal)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.run(ctx, hangups)
	}()
	write(t, path, "two")
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		if err := clk.AwaitTimers(patience, 1); err != nil {
			t.Fatal(err)
		}
		clk.Advance(reloadEvery)
	}
	w.log.await(t, "the policy was read again")
	hangups <- os.Interrupt // whatever comes there
	stop()
	<-over
	w.want(t, "one", "two", "two")
}
