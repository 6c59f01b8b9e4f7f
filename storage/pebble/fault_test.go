package pebble

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

func TestAFailedSyncEndsTheStoreAndLosesNothingAcknowledged(t *testing.T) {
	mem := vfs.NewMem()
	gate := newGateFS(mem)
	fatal := make(chan error, 2)
	s, err := Open(Config{Dir: "d", FS: gate, OnFatal: func(err error) { fatal <- err }})
	if err != nil {
		t.Fatal(err)
	}
	token := s.Apply(t.Context(), testBegin("1", ""))[0].Record.Token
	gate.fail(errors.New("the disk is gone"))
	for range 2 { // the second finds the store ended
		if got := s.Apply(t.Context(), testComplete("1", token, "x"))[0]; !errors.Is(got.Err, oncekeeper.ErrStoreUnavailable) {
			t.Fatalf("a settlement whose sync failed got %v", got)
		}
	}
	if err := <-fatal; !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("OnFatal was told %v", err)
	}
	if _, err := s.Read(t.Context(), testKey("1")); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("a read after the end gives %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("Ping after the end gives %v", err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("Close of a store that failed gives %v: whoever serves it must not end as if all were well", err)
	}
	if len(fatal) != 0 {
		t.Error("OnFatal was told twice")
	}
}

// fullFS says how much room there is.
type fullFS struct {
	vfs.FS
	free *atomic.Uint64
}

func (fs fullFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: fs.free.Load()}, nil
}

func TestAFullDiskRefusesWritesUntilThereIsRoom(t *testing.T) {
	var free atomic.Uint64
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	cfg := Config{Dir: "d", FS: fullFS{vfs.NewMem(), &free}, Clock: clk}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "disk is full") || errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("opening on a full disk gives %v", err)
	}
	free.Store(1 << 40)
	s := mustOpen(t, cfg)
	granted := s.Apply(t.Context(), testBegin("1", "call"))[0]
	free.Store(0)
	together := s.Apply(t.Context(), testBegin("2", ""), testBegin("1", "other"))
	if !errors.Is(together[0].Err, oncekeeper.ErrStoreUnavailable) || together[1].Verdict != lifecycle.InProgress {
		t.Errorf("on a full disk a Begin, and one beside it that writes nothing, got %v", together)
	}
	if got := s.Apply(t.Context(), testBegin("1", "other"))[0]; got.Verdict != lifecycle.InProgress {
		t.Errorf("an answer that writes nothing got %v on a full disk", got)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("Ping on a full disk gives %v", err)
	}
	free.Store(100 << 20) // of the 128 that a Begin needs
	if got := s.Apply(t.Context(), testBegin("2", ""))[0]; !errors.Is(got.Err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("a Begin on a nearly full disk got %v", got)
	}
	if got := s.Apply(t.Context(), testComplete("1", granted.Record.Token, "x"))[0]; got.Refusal() != nil {
		t.Errorf("on a nearly full disk the settlement of what runs got %v", got.Refusal())
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping on a nearly full disk gives %v, and holders could no more settle where it is a balancer's probe", err)
	}
	clk.Advance(2 * time.Hour)
	free.Store(50 << 20)
	if swept, err := s.Sweep(t.Context(), storage.SweepQuery{Limit: 10}); err != nil || swept.Records != 1 {
		t.Errorf("a sweep, which makes room, gives %v, %v on a nearly full disk", swept, err)
	}
	free.Store(1 << 40)
	if got := s.Apply(t.Context(), testBegin("2", ""))[0]; got.Verdict != lifecycle.Granted || got.Record.Attempt != 1 {
		t.Errorf("what was refused on a full disk left something: %v", got)
	}
}

func TestASecondStoreOnOneDirectoryIsRefusedAndSaysWhy(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, Config{Dir: dir})
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use by another oncekeeper") {
		t.Errorf("a second store of this process gives %v", err)
	}
	second := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHelperOpensADirectory$")
	second.Env = append(os.Environ(), "ONCEKEEPER_TEST_SECOND="+dir)
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another oncekeeper") {
		t.Errorf("a second process gives %v: %s", err, out)
	}
}

// TestHelperOpensADirectory is the second process of the test above.
func TestHelperOpensADirectory(t *testing.T) {
	if dir := os.Getenv("ONCEKEEPER_TEST_SECOND"); dir != "" {
		mustOpen(t, Config{Dir: dir})
	}
}

func TestADirectoryThatCannotBeWrittenIsRefusedAndSaysWhy(t *testing.T) {
	for name, fault := range map[string]error{"permission": fs.ErrPermission, "read-only": syscall.EROFS} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(Config{Dir: "d", FS: readOnlyFS{vfs.NewMem(), fault}})
			if err == nil || !strings.Contains(err.Error(), "cannot be written") || !errors.Is(err, fault) {
				t.Errorf("got %v", err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file in the directory's place gives %v", err)
	}
}

// readOnlyFS is a file system that was mounted so.
type readOnlyFS struct {
	vfs.FS
	fault error
}

func (fs readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: fs.fault}
}

func (fs readOnlyFS) Lock(name string) (io.Closer, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: fs.fault}
}

func TestAFormatOfANewerVersionIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, Config{Dir: "d", FS: mem})
	if err := s.db.Set(metaFormat, []byte("99"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, err := Open(Config{Dir: "d", FS: mem}); err == nil || !strings.Contains(err.Error(), `format "99"`) {
		t.Errorf("got %v", err)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	gate := newGateFS(vfs.NewMem())
	s := mustOpen(t, Config{Dir: "d", FS: gate})
	s.queue.clock = clock.NewManual(time.Unix(1_800_000_000, 0)) // no machine is so slow that the queue is full by time
	gate.shut()
	done := make(chan storage.Result, maxQueuedTasks+2)
	apply := func() { done <- s.Apply(t.Context(), testBegin("1", ""))[0] }
	go apply()
	<-gate.held
	for range maxQueuedTasks {
		go apply()
	}
	s.awaitQueued(t, maxQueuedTasks)
	if got := s.Apply(t.Context(), testBegin("1", ""))[0]; !errors.Is(got.Err, oncekeeper.ErrOverloaded) {
		t.Errorf("one call more than the queue holds got %v", got)
	}
	if st := s.Stats(); st.QueueFull != 1 || st.QueuedCalls != maxQueuedTasks || st.QueuedBytes < maxQueuedTasks {
		t.Errorf("of a full queue the store tells %d calls of %d bytes, and that %d found no room", st.QueuedCalls, st.QueuedBytes, st.QueueFull)
	}
	gate.open()
	for range maxQueuedTasks + 1 {
		if got := <-done; got.Err != nil {
			t.Fatalf("a call that was taken got %v", got.Err)
		}
	}
}

func TestTheQueueIsBoundedInTime(t *testing.T) {
	hands := clock.NewManual(time.Unix(1_800_000_000, 0))
	var q queue
	q.init(hands)
	push := func(want error) {
		t.Helper()
		if _, err := q.push(&pingTask{}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	push(nil)
	hands.Advance(maxQueuedFor)
	push(nil)
	hands.Advance(time.Microsecond)
	push(oncekeeper.ErrOverloaded) // the first has waited for too long
	if tasks, ok := q.take(nil); !ok || len(tasks) != 2 {
		t.Errorf("%d tasks were taken, want both", len(tasks))
	}
	push(nil)
}
