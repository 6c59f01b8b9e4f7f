package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

func grown(by string, sizes ...int) bench.Growth {
	g := bench.Growth{By: by, Store: "pebble:", SliceSeconds: 1, Rounds: 5}
	for i, size := range sizes {
		g.Points = append(g.Points, bench.Point{
			Size: size, Callers: 256, ResponseBytes: 256, Memory: bench.Memory{Peak: 100 << 20},
			Loads: []bench.Result{
				{Load: bench.Pairs, PerSecond: float64(1000 + i), P50: 2500, P99: 7500, ServerCPU: 40},
				{Load: bench.Replays, PerSecond: float64(3000 + i), ServerCPU: 20},
			},
		})
	}
	return g
}

func TestEachPointOfAReportIsDrawn(t *testing.T) {
	for by, c := range map[string]struct {
		sizes []int
		says  []string
	}{
		bench.ByKeys:     {[]int{10_000, 10_000_000}, []string{"pairs at 10K: 1000", "replays at 10M: 3001", "p99 at 10K: 7.5", "p50 at 10M: 2.5", "peak at 10M: 100", "keys in the store", "256 callers"}},
		bench.ByResponse: {[]int{0, 1 << 20}, []string{"pairs at 0: 1000", "replays at 1M: 3001", "bytes of response"}},
		bench.ByCallers:  {[]int{1, 4096}, []string{"pairs at 1: 1000", "replays at 4096: 3001", "callers at once"}},
		bench.ByTenants:  {[]int{1, 1000, 50_000}, []string{"pairs at 1K: 1001", "replays at 50K: 3002", "tenants"}},
	} {
		file := filepath.Join(t.TempDir(), by+".json")
		data, err := json.Marshal(grown(by, c.sizes...))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{file}); err != nil {
			t.Fatal(err)
		}
		image, err := os.ReadFile(imageOf(file))
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, image)
		for _, says := range c.says {
			if !bytes.Contains(image, []byte(says)) {
				t.Errorf("the plot by %s does not show %q:\n%s", by, says, image)
			}
		}
	}
}

func wellFormed(t *testing.T, image []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(image)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, image)
		}
	}
}

func TestWhatIsLargerStandsHigher(t *testing.T) {
	_, top := scale(3000)
	if axis := height(0, top); height(1, top) >= axis || height(3000, top) >= height(1000, top) || height(top, top) != above {
		t.Errorf("0 stands at %v, 1000 at %v, 3000 at %v and the top at %v", axis, height(1000, top), height(3000, top), height(top, top))
	}
	p := panel{places: []string{"1", "2", "3"}}
	if p.place(0) >= p.place(1) || p.place(1) >= p.place(2) {
		t.Errorf("sizes stand at %v, %v, %v", p.place(0), p.place(1), p.place(2))
	}
}

func TestTheScaleIsOfRoundNumbersAndHoldsAllValues(t *testing.T) {
	for most, want := range map[float64][2]float64{0: {1, 1}, 3: {1, 3}, 5: {1, 5}, 5.1: {2, 6}, 21: {5, 25}, 9000: {2000, 10000}, 0.3: {0.1, 0.3}, 26: {10, 30}} {
		step, top := scale(most)
		if near(step, want[0]) && near(top, want[1]) {
			continue
		}
		t.Errorf("the scale of %v is by %v to %v, want by %v to %v", most, step, top, want[0], want[1])
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func TestWhatIsNoReportIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "x", "of bench": `{"store": "memory:", "loads": []}`, "one size": `{"by": "keys", "points": [{"size": 1}]}`,
	} {
		file := filepath.Join(t.TempDir(), "a.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{file}); err == nil || !strings.Contains(err.Error(), "a.json") {
			t.Errorf("%s: run gives %v, want an error that names the file", name, err)
		}
	}
	if run([]string{"missing.json"}) == nil {
		t.Error("a file that is not there is taken")
	}
}

// TestThePlotsInTheDocsAreOfTheReportsBesideThem also finds a plot without its report.
func TestThePlotsInTheDocsAreOfTheReportsBesideThem(t *testing.T) {
	const docs = "../../docs/performance"
	plots, err := filepath.Glob(filepath.Join(docs, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	reports, err := filepath.Glob(filepath.Join(docs, "*.json"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("there is no report in %s, %v", docs, err)
	}
	for _, file := range reports {
		drawn, err := draw(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if image, err := os.ReadFile(imageOf(file)); err != nil || !bytes.Equal(image, drawn) {
			t.Errorf("%s is not of %s (%v): run make plots", imageOf(file), file, err)
		}
	}
	for _, image := range plots {
		if !slices.Contains(reports, strings.TrimSuffix(image, ".svg")+".json") {
			t.Errorf("%s has no report beside it", image)
		}
	}
}
