package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCPUTimeIsReadBehindANameWithSpacesAndBrackets(t *testing.T) {
	stat := "4242 (a) b (c d) S 1 2 3 4 5 6 7 8 9 10 150 30 0 0 20 0 8 0 99"
	if got, err := cpuOf([]byte(stat)); err != nil || got != 1800*time.Millisecond {
		t.Errorf("cpuOf = %v, %v, want 1.8 s", got, err)
	}
	for _, bad := range []string{"", "1 (a) S 1 2", "1 (a) S 1 2 3 4 5 6 7 8 9 10 x y"} {
		if got, err := cpuOf([]byte(bad)); err == nil {
			t.Errorf("cpuOf(%q) = %v, want an error", bad, got)
		}
	}
}

func TestWhatWasWrittenIsReadFromItsLine(t *testing.T) {
	io := "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n"
	if got, err := writtenOf([]byte(io)); err != nil || got != 4096 {
		t.Errorf("writtenOf = %d, %v, want 4096", got, err)
	}
	if _, err := writtenOf([]byte("rchar: 1\n")); err == nil {
		t.Error("writtenOf gives no error where there is no such line")
	}
}

func TestAQuantileIsOneOfTheValues(t *testing.T) {
	values := make([]time.Duration, 100)
	for i := range values {
		values[i] = time.Duration(i + 1)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v = %d, want %d", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing it is %v, want 0", got)
	}
}

func TestRatiosAreOfTheLoadsThatWereMeasured(t *testing.T) {
	rates := func(of map[string]float64) (results []Result) {
		for name, rate := range of {
			results = append(results, Result{Load: name, Units: 1, PerSecond: rate, P50: rate})
		}
		return results
	}
	embedded := Report{Loads: rates(map[string]float64{Empty: 100, Pairs: 25, Replays: 90, Coalesced: 60, Batches: 100})}
	embedded.Ratios = ratios(embedded)
	shared := Report{
		Loads: rates(map[string]float64{Empty: 100, Pairs: 30, Replays: 90, Coalesced: 60, Batches: 100, Plain: 20}),
		One:   rates(map[string]float64{Empty: 10, Pairs: 45, Plain: 20}),
	}
	shared.Ratios = ratios(shared)
	target := Report{Loads: rates(map[string]float64{Pairs: 25, Replays: 90})}
	target.Ratios = ratios(target)
	for name, c := range map[string]struct {
		report Report
		values []float64
		short  []string
	}{
		"embedded":                             {embedded, []float64{0.5, 0.9, 1.2, 2}, []string{"2 x pairs / empty calls is 0.50, at least 0.60"}},
		"postgres":                             {shared, []float64{1.5, 5, 1.125}, []string{"one caller: p50 of a pair / (of plain SQL + 2 empty calls) is 1.12, at most 1.00"}},
		"a target that answers no empty calls": {target, nil, nil},
	} {
		var values []float64
		for _, r := range c.report.Ratios {
			values = append(values, r.Value)
		}
		if !slices.Equal(values, c.values) {
			t.Errorf("%s: ratios %v, want %v", name, values, c.values)
		}
		if short := Short(c.report.Ratios); !slices.Equal(short, c.short) {
			t.Errorf("%s: short are %q, want %q", name, short, c.short)
		}
	}
	var table strings.Builder
	if err := embedded.Print(&table); err != nil || !strings.Contains(table.String(), "SHORT") {
		t.Errorf("the table does not say what falls short (%v):\n%s", err, table.String())
	}
}

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	good := Config{Callers: 1, Keys: 1, Tenants: 1, Turns: Turns{Slice: time.Second, Rounds: 1}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no callers": func(c *Config) { c.Callers = 0 }, "no keys": func(c *Config) { c.Keys = 0 }, "no tenants": func(c *Config) { c.Tenants = 0 },
		"no slice": func(c *Config) { c.Slice = 0 }, "no rounds": func(c *Config) { c.Rounds = 0 }, "too large": func(c *Config) { c.ResponseBytes = 1<<20 + 1 },
	} {
		cfg := good
		change(&cfg)
		if cfg.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
