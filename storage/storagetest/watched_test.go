package storagetest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// watch runs check on a test of its own, whose failure is not t's, and gives what
// it said on failing; empty where it passed.
func watch(t testing.TB, check func(testing.TB)) string {
	w := &watched{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(w)
	}()
	<-done
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed && w.said == "" {
		return "it failed without a word"
	}
	return w.said
}

// watched is a test that only remembers.
type watched struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	said   string
}

func (w *watched) Helper()                   {}
func (w *watched) Log(...any)                {}
func (w *watched) Logf(string, ...any)       {}
func (w *watched) Error(args ...any)         { w.say(fmt.Sprintln(args...)) }
func (w *watched) Fatal(args ...any)         { w.say(fmt.Sprintln(args...)); runtime.Goexit() }
func (w *watched) FailNow()                  { w.Fail(); runtime.Goexit() }
func (w *watched) Fail()                     { w.mu.Lock(); w.failed = true; w.mu.Unlock() }
func (w *watched) Errorf(f string, a ...any) { w.say(fmt.Sprintf(f, a...)) }
func (w *watched) Fatalf(f string, a ...any) {
	w.say(fmt.Sprintf(f, a...))
	runtime.Goexit()
}

func (w *watched) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *watched) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed, w.said = true, w.said+text
}
