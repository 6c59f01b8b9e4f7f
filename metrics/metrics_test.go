package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/oncekeeper/oncekeeper/internal/tally"
	"github.com/oncekeeper/oncekeeper/metrics"
)

type harbour struct {
	ships map[string]int
	loads *tally.Histogram
	waits *tally.Histogram
}

var readings = []metrics.Reading[*harbour]{
	{Metric: metrics.Metric{Name: "harbour_ships", Type: metrics.Gauge, Help: "Ships at anchor", Worry: "It is full", Labels: []metrics.Label{{Name: "kind", Values: []string{"brig", "cog"}}}},
		Read: func(h *harbour, out metrics.Out) {
			for kind, n := range h.ships {
				out.Value(float64(n), kind)
			}
		}},
	{Metric: metrics.Metric{Name: "harbour_calls_total", Type: metrics.Counter, Help: "Ships that called"},
		Read: metrics.Number(func(h *harbour) float64 { return float64(len(h.ships)) })},
	{Metric: metrics.Metric{Name: "harbour_loads", Type: metrics.Histogram, Help: "Bales a ship", Labels: []metrics.Label{{Name: "port", Means: "as its chart names it"}}},
		Read: func(h *harbour, out metrics.Out) { out.Sizes(h.loads.Snapshot(), "north") }},
	{Metric: metrics.Metric{Name: "harbour_wait_seconds", Type: metrics.Histogram, Help: "Time at anchor"},
		Read: func(h *harbour, out metrics.Out) { out.Times(h.waits.Snapshot()) }},
}

func TestWhatIsScrapedIsWhatTheSnapshotHas(t *testing.T) {
	h := &harbour{ships: map[string]int{"brig": 2, "cog": 5}, loads: tally.New(10, 100), waits: tally.New(1e9)}
	for _, n := range []int64{3, 40, 400} {
		h.loads.Add(n)
	}
	h.waits.Add(5e8)
	want := `
# HELP harbour_calls_total Ships that called.
# TYPE harbour_calls_total counter
harbour_calls_total 2
# HELP harbour_loads Bales a ship.
# TYPE harbour_loads histogram
harbour_loads_bucket{port="north",le="10"} 1
harbour_loads_bucket{port="north",le="100"} 2
harbour_loads_bucket{port="north",le="+Inf"} 3
harbour_loads_sum{port="north"} 443
harbour_loads_count{port="north"} 3
# HELP harbour_ships Ships at anchor.
# TYPE harbour_ships gauge
harbour_ships{kind="brig"} 2
harbour_ships{kind="cog"} 5
# HELP harbour_wait_seconds Time at anchor.
# TYPE harbour_wait_seconds histogram
harbour_wait_seconds_bucket{le="1"} 1
harbour_wait_seconds_bucket{le="+Inf"} 1
harbour_wait_seconds_sum 0.5
harbour_wait_seconds_count 1
`
	if got := scrape(t, metrics.Collect(func() *harbour { return h }, readings)); got != want[1:] {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

// scrape gives what a registry that checks all it is told shows of these.
func scrape(t *testing.T, of ...prometheus.Collector) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(of...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestTwoSourcesOfOneKindAreToldApartOnOneRegistry(t *testing.T) {
	ships := []metrics.Reading[int]{{
		Metric: metrics.Metric{Name: "harbour_ships", Type: metrics.Gauge, Help: "Ships at anchor", Labels: []metrics.Label{{Name: "harbour", Means: "its name"}, {Name: "kind", Values: []string{"cog"}}}},
		Read:   func(n int, out metrics.Out) { out.Value(float64(n), "cog") },
	}}
	of := func(name string, n int) prometheus.Collector {
		return metrics.CollectOne(map[string]string{"harbour": name}, func() int { return n }, ships)
	}
	want := `
# HELP harbour_ships Ships at anchor.
# TYPE harbour_ships gauge
harbour_ships{harbour="north",kind="cog"} 2
harbour_ships{harbour="south",kind="cog"} 5
`
	if got := scrape(t, of("north", 2), of("south", 5)); got != want[1:] {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

func TestOneScrapeTakesOneSnapshot(t *testing.T) {
	taken := 0
	c := metrics.Collect(func() *harbour {
		taken++
		return &harbour{loads: tally.New(), waits: tally.New()}
	}, readings)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	if _, err := reg.Gather(); err != nil || taken != 1 {
		t.Errorf("a scrape took %d snapshots and gave the error %v, want 1 and none", taken, err)
	}
}

func TestThePageSaysWhatEachMetricIsAndWhenToWorry(t *testing.T) {
	got := metrics.Page([]metrics.Section{
		{Title: "Harbour", Text: "By the sea.", Metrics: metrics.Of(readings)[:1]},
		{Title: "Charts", Metrics: metrics.Of(readings)[2:3]},
	})
	want := "## Harbour\n\nBy the sea.\n\n" +
		"| metric | what it says | labels | when to worry |\n| --- | --- | --- | --- |\n" +
		"| `harbour_ships` (gauge) | Ships at anchor. | `kind`: brig, cog | It is full |\n\n" +
		"## Charts\n\n" +
		"| metric | what it says | labels | when to worry |\n| --- | --- | --- | --- |\n" +
		"| `harbour_loads` (histogram) | Bales a ship. | `port`: as its chart names it |  |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
