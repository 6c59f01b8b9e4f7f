package soak

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// goroutines counts a process's goroutines by what the Go runtime itself says of
// each (GODEBUG=schedtrace,scheddetail): it needs no port, and a binary of any
// version says it.
type goroutines struct {
	mu            sync.Mutex
	counting, now int64
}

// traced has the runtime say it once in so many milliseconds.
func traced(ms int64) string { return fmt.Sprintf("scheddetail=1,schedtrace=%d", ms) }

// heard takes the runtime's lines and leaves all others. A trace begins with
// "SCHED"; each goroutine is a line, with the number of its state: 6 is one that
// ended.
func (g *goroutines) heard(line string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case strings.HasPrefix(line, "SCHED "):
		if g.counting > 0 {
			g.now = g.counting
		}
		g.counting = 0
	case strings.HasPrefix(line, "  G"):
		if _, status, ok := strings.Cut(line, "status="); ok && !strings.HasPrefix(status, "6") {
			g.counting++
		}
	case strings.HasPrefix(line, "  P"), strings.HasPrefix(line, "  M"):
	default:
		return false
	}
	return true
}

// look reads what process pid takes.
func (g *goroutines) look(pid int) (sample, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return sample{}, err
	}
	_, rss, ok := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rss)
	if !ok || len(fields) < 2 {
		return sample{}, fmt.Errorf("no VmRSS in %s", text)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return sample{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return sample{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return sample{RSS: kib << 10, Goroutines: g.now, Files: int64(len(files))}, nil
}
