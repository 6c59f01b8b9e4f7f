package pebble

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

func TestADamagedFileEndsTheStoreAndNamesNoKey(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, Config{Dir: "d", FS: mem})
	for i := range 3000 {
		s.Apply(t.Context(), testBegin(fmt.Sprint("secret-", i), ""))
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	damageTables(t, mem)

	fatal := make(chan error, 1)
	s, err := Open(Config{Dir: "d", FS: mem, OnFatal: func(err error) { fatal <- err }})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Apply(t.Context(), testBegin("secret-999", ""))[0]; !errors.Is(got.Err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("a Begin of a record in a damaged block got %v", got)
	}
	told := <-fatal
	if !strings.Contains(told.Error(), "damaged") || strings.Contains(told.Error(), "secret") {
		t.Errorf("OnFatal was told %v", told)
	}
	if err := s.Close(); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("Close gives %v", err)
	}
}

// damageTables spoils every table in d, past its beginning and before its end.
func damageTables(t *testing.T, fs vfs.FS) {
	t.Helper()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := fs.OpenReadWrite("d/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		for at := info.Size() / 3; at < info.Size()*9/10; at += 500 {
			if _, err := f.WriteAt([]byte{0xde, 0xad, 0xbe, 0xef}, at); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStoreThatCannotBeMadeDurableIsNotOpened(t *testing.T) {
	gate := newGateFS(vfs.NewMem())
	gate.fail(errors.New("the disk is gone"))
	if _, err := Open(Config{Dir: "d", FS: gate}); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("Open gives %v", err)
	}
}

func TestClosingWaitsForThoseWhoRead(t *testing.T) {
	s := mustOpen(t, Config{})
	for i := range 500 {
		s.Apply(t.Context(), testBegin(fmt.Sprint(i), ""))
	}
	reading, ended := make(chan struct{}, 1000), make(chan error, 4)
	for range 4 {
		go func() {
			for {
				if _, err := s.List(t.Context(), storage.ListQuery{Limit: 1000}); err != nil {
					ended <- err
					return
				}
				select {
				case reading <- struct{}{}:
				default:
				}
			}
		}()
	}
	<-reading
	mustClose(t, s)
	for range 4 {
		if err := <-ended; !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
			t.Errorf("a listing of a store that was closed gives %v", err)
		}
	}
}

func TestACommandThatCannotBeStoredFailsAlone(t *testing.T) {
	s := mustOpen(t, Config{})
	got := s.Apply(t.Context(), testBegin("1", "\xff"), testBegin("2", "fine"))
	if !errors.Is(got[0].Err, oncekeeper.ErrStoreUnavailable) || got[1].Verdict != lifecycle.Granted {
		t.Errorf("a command that cannot be encoded, and the one beside it, got %v", got)
	}
}

func TestTheQueuesBytesAreBoundedAndGivenBack(t *testing.T) {
	gate := newGateFS(vfs.NewMem())
	s := mustOpen(t, Config{Dir: "d", FS: gate})
	body := strings.Repeat("x", 1<<20)
	for range 2 { // the second time, all that the first took must have been given back
		gate.shut()
		done := make(chan storage.Result, 256)
		go func() { done <- s.Apply(t.Context(), testBegin("first", ""))[0] }()
		first := 1
		select {
		case <-gate.held:
		case got := <-done: // in progress by now: nothing to write, and nothing held
			t.Fatalf("the first got %v", got)
		}
		taken := 0
		for ; ; taken++ {
			queued := s.queuedTasks()
			go func() { done <- s.Apply(t.Context(), testComplete("none", 1, body))[0] }()
			if !s.grew(queued, done) {
				break
			}
		}
		if taken < 60 || taken > 64 {
			t.Errorf("%d settlements of 1 MiB were queued, want nearly 64 MiB of them", taken)
		}
		gate.open()
		for range taken + first {
			if got := <-done; got.Err != nil {
				t.Fatalf("a call that was taken got %v", got.Err)
			}
		}
		s.Apply(t.Context(), lifecycle.Delete{Key: testKey("first"), Etag: s.etag(t, "first"), Force: true})
	}
}

func (s *Store) queuedTasks() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.tasks)
}

// grew waits until one more task is queued, or a call was refused.
func (s *Store) grew(from int, done chan storage.Result) bool {
	for {
		if s.queuedTasks() > from {
			return true
		}
		select {
		case got := <-done:
			return !errors.Is(got.Err, oncekeeper.ErrOverloaded)
		default:
		}
	}
}

func (s *Store) etag(t *testing.T, id string) string {
	t.Helper()
	got, err := s.Read(t.Context(), testKey(id))
	if err != nil {
		t.Fatal(err)
	}
	return got.Records[0].Etag()
}

func TestARoundHoldsABoundedPartOfWhatIsStored(t *testing.T) {
	gate := newGateFS(vfs.NewMem())
	s := mustOpen(t, Config{Dir: "d", FS: gate})
	const records = 64
	body := strings.Repeat("x", 1<<20)
	for i := range records {
		id := fmt.Sprint(i)
		token := s.Apply(t.Context(), testBegin(id, ""))[0].Record.Token
		s.Apply(t.Context(), testComplete(id, token, body))
	}
	gate.shut()
	done := make(chan storage.Result, records+1)
	go func() { done <- s.Apply(t.Context(), testBegin("holder", ""))[0] }()
	<-gate.held
	for i := range records {
		go func() { done <- s.Apply(t.Context(), testBegin(fmt.Sprint(i), ""))[0] }()
	}
	s.awaitQueued(t, records)
	gate.open()
	moments := map[oncekeeper.Instant]int{}
	for range records + 1 {
		got := <-done
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		moments[got.Now]++
	}
	for at, n := range moments {
		if n > 17 {
			t.Errorf("the round at %d read %d records of 1 MiB", at, n)
		}
	}
}
