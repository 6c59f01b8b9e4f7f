package pebble

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// grace is how long a test gives a fault to show. A store without it passes on
// any machine.
const grace = 50 * time.Millisecond

// gateFS is a file system whose syncs wait while the gate is shut, or fail.
type gateFS struct {
	vfs.FS
	mu    sync.Mutex
	gate  chan struct{} // nil: open
	fault error
	// held tells that a sync waits at the gate.
	held chan struct{}
}

func newGateFS(under vfs.FS) *gateFS { return &gateFS{FS: under, held: make(chan struct{}, 64)} }

func (fs *gateFS) shut() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.gate = make(chan struct{})
}

func (fs *gateFS) open() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	close(fs.gate)
	fs.gate = nil
}

func (fs *gateFS) fail(err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.fault = err
}

func (fs *gateFS) pass() error {
	fs.mu.Lock()
	gate, fault := fs.gate, fs.fault
	fs.mu.Unlock()
	if gate != nil {
		fs.held <- struct{}{}
		<-gate
	}
	return fault
}

func (fs *gateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	return &gateFile{f, fs}, err
}

func (fs *gateFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, to, c)
	return &gateFile{f, fs}, err
}

type gateFile struct {
	vfs.File
	fs *gateFS
}

func (f *gateFile) Sync() error {
	if err := f.fs.pass(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *gateFile) SyncData() error {
	if err := f.fs.pass(); err != nil {
		return err
	}
	return f.File.SyncData()
}

func testKey(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "t", Operation: "o", ID: id}
}

func testBegin(id, call string) lifecycle.Begin {
	return lifecycle.Begin{Key: testKey(id), CallID: call, Grant: oncekeeper.Grant{
		Lease: time.Minute, Retention: time.Hour, UnsettledRetention: time.Hour,
	}}
}

func testComplete(id string, token int64, body string) lifecycle.Settle {
	return lifecycle.Settle{
		Key: testKey(id), Token: token, As: oncekeeper.SettledComplete,
		Response: &oncekeeper.Response{Body: []byte(body)},
	}
}

func TestNoAnswerAndNoReadLeavesBeforeItsSync(t *testing.T) {
	fs := newGateFS(vfs.NewMem())
	s := mustOpen(t, Config{Dir: "d", FS: fs})
	token := s.Apply(t.Context(), testBegin("1", ""))[0].Record.Token

	fs.shut()
	answers := make(chan string, 8)
	go func() {
		s.Apply(t.Context(), testComplete("1", token, "x"))
		answers <- "the settlement"
	}()
	<-fs.held // Pebble shows the batch to readers already
	others := map[string]func(){
		"a read of the key":  func() { _, _ = s.Read(t.Context(), testKey("1")) },
		"a replay":           func() { s.Apply(t.Context(), testBegin("1", "other")) },
		"a listing":          func() { _, _ = s.List(t.Context(), storage.ListQuery{Limit: 1}) },
		"a Begin of another": func() { s.Apply(t.Context(), testBegin("2", "")) },
	}
	for name, ask := range others {
		go func() {
			ask()
			answers <- name
		}()
	}
	s.awaitQueued(t, len(others))
	select {
	case name := <-answers:
		fs.open()
		t.Fatalf("%s was answered before the sync that it rests on", name)
	case <-time.After(grace):
	}
	fs.open()
	for range 1 + len(others) {
		<-answers
	}
}

// awaitQueued returns once n tasks wait for the committer.
func (s *Store) awaitQueued(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s.queue.mu.Lock()
		queued := len(s.queue.tasks)
		s.queue.mu.Unlock()
		if queued == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks wait for the committer, want %d", queued, n)
		}
	}
}

func TestWhatWasAnsweredOutlivesAPowerCut(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, Config{Dir: "d", FS: mem})
	for i := range 50 {
		id := fmt.Sprint(i)
		granted := s.Apply(t.Context(), testBegin(id, "call"))[0]
		settled := s.Apply(t.Context(), testComplete(id, granted.Record.Token, id))[0]
		if settled.Refusal() != nil {
			t.Fatal(settled.Refusal())
		}
		// Everything that was not synced is lost.
		after := mustOpen(t, Config{Dir: "d", FS: mem.CrashClone(vfs.CrashCloneCfg{})})
		for j := range i + 1 {
			got, err := after.Read(t.Context(), testKey(fmt.Sprint(j)))
			if err != nil || got.Records[0] == nil || string(got.Records[0].Response.Body) != fmt.Sprint(j) {
				t.Fatalf("after a power cut behind settlement %d, key %d is %v, %v", i, j, got.Records[0], err)
			}
		}
		mustClose(t, after)
	}
}

func TestACallThatWaitsSharesTheNextSync(t *testing.T) {
	fs := newGateFS(vfs.NewMem())
	s := mustOpen(t, Config{Dir: "d", FS: fs})
	fs.shut()
	var calls sync.WaitGroup
	for i := range 101 {
		calls.Go(func() { s.Apply(t.Context(), testBegin(fmt.Sprint(i), "")) })
		if i == 0 {
			<-fs.held
		}
	}
	s.awaitQueued(t, 100)
	fs.open()
	calls.Wait()
	if rounds := int64(s.counters.commits.Snapshot().Count()); rounds != 2 {
		t.Errorf("101 calls took %d batches, want 2: the first alone, the rest together", rounds)
	}
}
