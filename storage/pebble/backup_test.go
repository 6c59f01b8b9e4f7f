package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

func TestABackupUnderLoadHoldsWhatWasAnsweredBeforeItBegan(t *testing.T) {
	root := t.TempDir()
	s := mustOpen(t, Config{Dir: filepath.Join(root, "data")})
	const callers = 8
	var settled [callers][]string // by caller: what is answered
	var mu sync.Mutex
	stop, all := make(chan struct{}), sync.WaitGroup{}
	ready := make(chan struct{}, callers)
	for caller := range callers {
		all.Go(func() {
			for n := 0; ; n++ {
				if n == 50 {
					ready <- struct{}{}
				}
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", caller, n)
				granted := s.Apply(t.Context(), testBegin(id, ""))[0]
				if res := s.Apply(t.Context(), testComplete(id, granted.Record.Token, id))[0]; res.Refusal() != nil {
					t.Error(res.Refusal())
					return
				}
				mu.Lock()
				settled[caller] = append(settled[caller], id)
				mu.Unlock()
			}
		})
	}
	for range callers {
		<-ready
	}
	mu.Lock()
	var before []string
	for _, ids := range settled {
		before = append(before, ids...)
	}
	mu.Unlock()
	dir := filepath.Join(root, "backups", "one")
	made, err := s.Backup(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	all.Wait()
	last := s.Apply(t.Context(), testBegin("the last", ""))[0]
	mustClose(t, s)

	restored := mustOpen(t, Config{Dir: dir})
	for _, id := range before {
		res := restored.Apply(t.Context(), testBegin(id, "again"))[0]
		if res.Verdict != lifecycle.Replayed || string(res.Record.Response.Body) != id {
			t.Fatalf("%s, which was settled before, is %v in the backup", id, res.Verdict)
		}
	}
	res := restored.Apply(t.Context(), testBegin("the last", ""))[0]
	if res.Verdict != lifecycle.Granted || res.Record.Token <= last.Record.Token {
		t.Errorf("a key begun after the backup is %v there, with token %d behind %d", res.Verdict, res.Record.Token, last.Record.Token)
	}
	if made.Bytes == 0 || made.Begun == 0 || len(before) < callers*50 {
		t.Errorf("the backup says %+v of %d settlements", made, len(before))
	}
}

func TestNothingOpensABackupThatIsNotWhole(t *testing.T) {
	root := t.TempDir()
	s := mustOpen(t, Config{Dir: filepath.Join(root, "data")})
	s.Apply(t.Context(), testBegin("1", ""))
	dir := filepath.Join(root, "backup")
	looked := false
	s.beforeNaming = func() { // what the process's end at this point leaves
		looked = true
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before it is whole, the backup has its name: %v", err)
		}
		half, err := Open(Config{Dir: dir + unfinished})
		if err == nil {
			mustClose(t, half)
		}
		if err == nil || !strings.Contains(err.Error(), "restore another") {
			t.Errorf("half a backup opens, or says nothing of what to do: %v", err)
		}
	}
	if _, err := s.Backup(t.Context(), dir); err != nil || !looked {
		t.Fatalf("the backup: %v", err)
	}
	mustClose(t, mustOpen(t, Config{Dir: dir}))
}

func TestNobodyButItsOwnerEntersABackup(t *testing.T) {
	root := t.TempDir()
	s := mustOpen(t, Config{Dir: filepath.Join(root, "data")})
	s.Apply(t.Context(), testBegin("1", ""))
	dir := filepath.Join(root, "backups", "one")
	if _, err := s.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for at := dir; at != root; at = filepath.Dir(at) {
		if about, err := os.Stat(at); err != nil || about.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has %v (%v), want nothing for others", at, about.Mode(), err)
		}
	}
	mustClose(t, s)
}

func TestABackupIsRefusedWhereItWouldHarmOrCannotBe(t *testing.T) {
	root := t.TempDir()
	s := mustOpen(t, Config{Dir: filepath.Join(root, "data")})
	taken := filepath.Join(root, "taken")
	left := filepath.Join(root, "left")
	for _, dir := range []string{taken, left + unfinished} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]error{
		taken: fs.ErrExist, left: fs.ErrExist, filepath.Join(root, "x") + unfinished: fs.ErrInvalid,
		filepath.Join(root, "data", "000050.log"): fs.ErrInvalid, filepath.Join(root, "data", "backups", "monday"): fs.ErrInvalid,
	} {
		if _, err := s.Backup(t.Context(), dir); !errors.Is(err, want) {
			t.Errorf("a backup to %s gives %v, want %v", dir, err, want)
		}
	}
	inFile := filepath.Join(root, "file")
	if err := os.WriteFile(inFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), filepath.Join(inFile, "b")); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("where no directory can be made it gives %v", err)
	}
	if res := s.Apply(t.Context(), testBegin("1", ""))[0]; res.Verdict != lifecycle.Granted {
		t.Errorf("behind refused backups a Begin is %v %v", res.Verdict, res.Err)
	}
	if _, err := mustOpen(t, Config{}).Backup(t.Context(), filepath.Join(root, "memory")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a backup of memory gives %v", err)
	}
	mustClose(t, s)
	if _, err := s.Backup(t.Context(), filepath.Join(root, "late")); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("a backup of a closed store gives %v", err)
	}
}
