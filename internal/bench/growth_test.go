package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// faulty is a store that has no room for each n-th Begin that comes alone, and cannot
// be reached by each n-th; 0: by none.
type faulty struct {
	storage.Store
	overloads, breaks int64
	n                 atomic.Int64
}

func (s *faulty) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	if _, begin := cmds[0].(lifecycle.Begin); begin && len(cmds) == 1 {
		n := s.n.Add(1)
		switch {
		case s.overloads > 0 && n%s.overloads == 0:
			return []storage.Result{{Err: fmt.Errorf("no room: %w", oncekeeper.ErrOverloaded)}}
		case s.breaks > 0 && n%s.breaks == 0:
			return []storage.Result{{Err: fmt.Errorf("gone: %w", oncekeeper.ErrStoreUnavailable)}}
		}
	}
	return s.Store.Apply(ctx, cmds...)
}

// subject is measured over a service in this process.
func subject(t *testing.T, size int, on *faulty) Subject {
	t.Helper()
	store, err := pebble.Open(pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	on.Store = store
	keeper, err := inprocess.Open(inprocess.Config{Store: on})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keeper.Close(context.WithoutCancel(t.Context())) })
	conn, err := keeper.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return Subject{Size: size, Config: Config{Conns: []*grpc.ClientConn{conn}, Callers: 8, ResponseBytes: 10, Keys: size, Tenants: 2}}
}

func TestWhoIsToldThatTheServiceIsOverloadedIsCountedAndGoesOn(t *testing.T) {
	turns := Turns{Slice: 300 * time.Millisecond, Rounds: 1, Progress: func(string) {}}
	g, err := Grow(t.Context(), ByKeys, turns, []Subject{subject(t, 10, &faulty{overloads: 3}), subject(t, 20, &faulty{overloads: 3})})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range g.Points {
		if len(p.Loads) != 2 {
			t.Fatalf("at %d keys the loads are %+v, want pairs and replays", p.Size, p.Loads)
		}
		for _, l := range p.Loads {
			if l.Units == 0 || l.Overloaded == 0 || l.Failed != 0 {
				t.Errorf("at %d keys a load is %+v, want some done, some overloaded, none failed", p.Size, l)
			}
		}
	}
}

func TestACallThatTheClientTriesAgainIsCountedAsFailed(t *testing.T) {
	s := subject(t, 10, &faulty{breaks: 2})
	w := newWork(s.Config)
	for range 2 {
		if err := w.pair(t.Context(), w.keeper); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.faults.now(); got.others == 0 || got.overloaded != 0 {
		t.Errorf("of two pairs, one of which was tried again, it counts %+v", got)
	}
}

// measuredAt is a point of so many pairs a second.
func measuredAt(size int, perSecond, p99Millis float64) Point {
	return Point{Size: size, Callers: size, Loads: []Result{{Load: Pairs, Units: 1, PerSecond: perSecond, P99: p99Millis * 1000}}}
}

func TestSizesAreHeldToWhatIsToBeReached(t *testing.T) {
	large := func(peak, onDisk int64) Point {
		p := measuredAt(10_000_000, 900, 1)
		p.Memory.Peak, p.Disk = peak<<20, &Disk{Directory: onDisk, Stored: 100, Records: 1}
		return p
	}
	failing := measuredAt(1, 1000, 1)
	failing.Loads[0].Failed = 2
	for name, c := range map[string]struct {
		growth Growth
		ratios int
		short  []string
	}{
		"keys":           {Growth{By: ByKeys, Points: []Point{measuredAt(100_000, 1000, 1), large(512, 150)}}, 4, nil},
		"fewer pairs":    {Growth{By: ByKeys, Points: []Point{measuredAt(100_000, 2000, 1), large(10, 100)}}, 4, []string{"pairs at 10000000 keys / at 100000 is 0.45, at least 0.80"}},
		"memory":         {Growth{By: ByKeys, Points: []Point{large(600, 150)}}, 3, []string{"peak of the server's memory at 10000000 keys, MiB is 600.00, at most 512.00"}},
		"disk":           {Growth{By: ByKeys, Points: []Point{large(1, 160)}}, 3, []string{"bytes on disk / bytes stored at 10000000 keys is 1.60, at most 1.50"}},
		"memory unknown": {Growth{By: ByKeys, Points: []Point{measuredAt(10, 1, 1)}}, 1, nil},
		"callers":        {Growth{By: ByCallers, Points: []Point{measuredAt(256, 1000, 1), measuredAt(4096, 1024, 11_000)}}, 3, nil},
		"collapse":       {Growth{By: ByCallers, Points: []Point{measuredAt(256, 1024, 1), measuredAt(4096, 512, 8000)}}, 3, []string{"pairs at 4096 callers / at 256 is 0.50, at least 0.90"}},
		"a long tail": {Growth{By: ByCallers, Points: []Point{measuredAt(4096, 1024, 16_000)}}, 2,
			[]string{"p99 of a pair / (callers / pairs a second) at 4096 callers is 4.00, at most 3.00"}},
		"tenants":  {Growth{By: ByTenants, Points: []Point{measuredAt(1, 1000, 1), measuredAt(50_000, 700, 1)}}, 2, []string{"pairs at 50000 tenants / at 1 is 0.70, at least 0.80"}},
		"failures": {Growth{By: ByResponse, Points: []Point{failing}}, 1, []string{"calls that failed, and not because the service was overloaded is 2.00, at most 0.00"}},
		"nothing":  {Growth{By: ByKeys}, 0, nil},
	} {
		c.growth.Judge()
		if short := Short(c.growth.Ratios); !slices.Equal(short, c.short) || len(c.growth.Ratios) != c.ratios {
			t.Errorf("%s: %d ratios, of which are short %q; want %d, %q", name, len(c.growth.Ratios), short, c.ratios, c.short)
		}
		var table strings.Builder
		if err := c.growth.Print(&table); err != nil || strings.Contains(table.String(), "SHORT") != (len(c.short) > 0) {
			t.Errorf("%s: the table does not say what falls short, or does so in vain (%v):\n%s", name, err, table.String())
		}
	}
}

func TestMemoryIsReadFromItsLines(t *testing.T) {
	status := "Name:\ta VmRSS: 1 kB\nVmPeak:\t  900 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n"
	if got, err := residentOf([]byte(status)); err != nil || got != (Memory{Now: 1 << 20, Peak: 2 << 20}) {
		t.Errorf("residentOf = %+v, %v, want 1 and 2 MiB", got, err)
	}
	for _, bad := range []string{"", "VmRSS:\t1 kB\n", "VmHWM:\t1 kB\nVmRSS:\tx kB\n"} {
		if got, err := residentOf([]byte(bad)); err == nil {
			t.Errorf("residentOf(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestResponsesThatFollowEachOtherShareNothing(t *testing.T) {
	for _, size := range []int{0, 1, 256, 1 << 20} {
		b := newBodies(size)
		last := b.next()
		for range 100 {
			next := b.next()
			if len(next) != size || cap(next) != size {
				t.Fatalf("a response has %d bytes, and room for %d, want %d", len(next), cap(next), size)
			}
			if size == 256 && overlap(last, next) {
				t.Fatal("a response repeats a part of the one before")
			}
			last = next
		}
	}
}

// overlap says whether both are of the same bytes somewhere: random ones that are
// not do not have eight alike.
func overlap(a, b []byte) bool {
	return strings.Contains(string(a), string(b[:8])) || strings.Contains(string(b), string(a[:8]))
}
