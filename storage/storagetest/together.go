package storagetest

import (
	"maps"
	"runtime"
	"sync"
	"testing"
)

// together runs f n times at once, each with hands of its own on the same store,
// and waits for all. What they saw of keys that no two of them touch is h's
// afterwards.
func (h *hands) together(n int, f func(one *hands, i int)) {
	h.Helper()
	all := make([]*hands, n)
	var running sync.WaitGroup
	for i := range n {
		all[i] = newHands(aside{h.TB}, h.Opened)
		running.Go(func() { f(all[i], i) })
	}
	running.Wait()
	if h.Failed() {
		h.FailNow()
	}
	for _, one := range all {
		maps.Copy(h.mirror, one.mirror)
		h.last = max(h.last, one.last)
	}
}

// aside fails a test from a goroutine that is not the test's: that goroutine
// ends, and together ends the test.
type aside struct{ testing.TB }

func (a aside) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a aside) Fatalf(format string, args ...any) {
	a.Helper()
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a aside) Fatal(args ...any) {
	a.Helper()
	a.Error(args...)
	runtime.Goexit()
}
