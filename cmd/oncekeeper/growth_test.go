package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

func TestGrowthMeasuresEachSizeOfWhatGrowsAndLeavesNothing(t *testing.T) {
	for by, c := range map[string]struct {
		sizes string
		of    func(bench.Point) int
	}{
		bench.ByKeys:     {"10,200", func(p bench.Point) int { return p.Keys }},
		bench.ByResponse: {"0,5000", func(p bench.Point) int { return p.ResponseBytes }},
		bench.ByCallers:  {"1,8", func(p bench.Point) int { return p.Callers }},
		bench.ByTenants:  {"1,300", func(p bench.Point) int { return p.Tenants }},
	} {
		t.Run(by, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			code, stdout, stderr := command(t, "growth", by, "--sizes", c.sizes, "--store", "pebble:"+dir, "--callers", "2", "--keys", "100", "--rounds", "1", "--slice", "50ms", "--json")
			var g bench.Growth
			if err := json.Unmarshal([]byte(stdout), &g); err != nil || code != 0 {
				t.Fatalf("growth %s exits with %d: %s %v", by, code, stderr, err)
			}
			if g.By != by || g.Store != "embedded" || len(g.Points) != 2 || len(g.Ratios) == 0 {
				t.Fatalf("the report is %+v", g)
			}
			for _, p := range g.Points {
				if c.of(p) != p.Size {
					t.Errorf("a size of %d was measured with %+v", p.Size, p)
				}
				measuredBoth(t, p)
			}
			last := g.Points[1]
			if d := last.Disk; d == nil || d.Records < int64(last.Keys) || d.Stored < d.Records*100 || d.Directory < d.Stored {
				t.Errorf("of the disk it tells %+v", last.Disk)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind are %v, %v", left, err)
			}
		})
	}
}

func measuredBoth(t *testing.T, p bench.Point) {
	t.Helper()
	var names []string
	for _, l := range p.Loads {
		names = append(names, l.Load)
		if l.Units == 0 || l.PerSecond <= 0 || l.P99 < l.P50 || l.Callers != p.Callers || l.Failed != 0 {
			t.Errorf("at %d a load is %+v", p.Size, l)
		}
	}
	if strings.Join(names, ", ") != "pairs, replays" {
		t.Errorf("at %d the loads are %q", p.Size, names)
	}
	if known := p.Memory.Now > 0; known != (runtime.GOOS == "linux") || p.Memory.Peak < p.Memory.Now {
		t.Errorf("at %d the server's memory is %+v", p.Size, p.Memory)
	}
}

func TestGrowthCheckFailsWhereASizeFallsShort(t *testing.T) {
	for name, c := range map[string]struct {
		pairs float64
		fails bool
	}{"short": {80, true}, "reached": {90, false}} {
		at := func(callers int, pairs float64) bench.Point {
			return bench.Point{Size: callers, Callers: callers, Loads: []bench.Result{{Load: bench.Pairs, Units: 1, PerSecond: pairs}}}
		}
		g := bench.Growth{By: bench.ByCallers, Points: []bench.Point{at(256, 100), at(4096, c.pairs)}}
		g.Judge()
		var out strings.Builder
		if err := (&growthCmd{Check: true}).print(console{out: &out}, g); (err != nil) != c.fails {
			t.Errorf("%s: --check gives %v", name, err)
		}
	}
}

func TestGrowthTellsWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"must be one of":     {"age"},
		"--sizes grow":       {"keys", "--sizes", "10,10"},
		"there is at least":  {"keys", "--sizes", "0,10"},
		"callers are 1":      {"callers", "--sizes", "1,70000"},
		"0 to 1,048,576":     {"response", "--sizes", "1,2000000"},
		"--connections":      {"keys", "--connections", "0"},
		"--store of kind":    {"keys", "--store", "redis:x"},
		"at least one round": {"tenants", "--rounds", "0"},
	} {
		code, _, stderr := command(t, append([]string{"growth"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("growth %v exits with %d: %s, want %q", args, code, stderr, want)
		}
	}
}
