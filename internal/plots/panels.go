package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

// panel is one drawing: lines over the same places.
type panel struct {
	name, below string
	places      []string
	lines       []line
}

type line struct {
	name   string
	values []float64
}

var axes = map[string]string{
	bench.ByKeys: "keys in the store", bench.ByResponse: "bytes of response", bench.ByCallers: "callers at once", bench.ByTenants: "tenants",
}

// panelsOf gives the panels of a report, of those loads that every point has.
func panelsOf(g bench.Growth) ([]panel, error) {
	if axes[g.By] == "" || len(g.Points) < 2 {
		return nil, errors.New("not a report of oncekeeper growth, with two sizes or more")
	}
	pick := func(name string, of func(bench.Result) float64) line {
		values := make([]float64, len(g.Points))
		for i, p := range g.Points {
			if at := slices.IndexFunc(p.Loads, func(r bench.Result) bool { return r.Load == name }); at >= 0 {
				values[i] = of(p.Loads[at])
			}
		}
		return line{name: name, values: values}
	}
	named := func(name string, l line) line { l.name = name; return l }
	rate := func(r bench.Result) float64 { return r.PerSecond }
	cpu := func(r bench.Result) float64 { return r.ServerCPU }
	p50 := func(r bench.Result) float64 { return r.P50 / 1000 }
	p99 := func(r bench.Result) float64 { return r.P99 / 1000 }
	panels := []panel{
		{name: "per second", lines: []line{pick(bench.Pairs, rate), pick(bench.Replays, rate)}},
		{name: "a pair takes, ms", lines: []line{named("p99", pick(bench.Pairs, p99)), named("p50", pick(bench.Pairs, p50))}},
		{name: "CPU time of the server for each, µs", lines: []line{pick(bench.Pairs, cpu), pick(bench.Replays, cpu)}},
	}
	if g.By == bench.ByKeys {
		panels = append(panels, panel{name: "memory of the server, MiB", lines: []line{memory(g)}})
	}
	for i := range panels {
		panels[i].below, panels[i].places = axes[g.By], places(g)
	}
	return panels, nil
}

func memory(g bench.Growth) line {
	l := line{name: "peak"}
	for _, p := range g.Points {
		l.values = append(l.values, float64(p.Memory.Peak)/(1<<20))
	}
	return l
}

func places(g bench.Growth) (names []string) {
	for _, p := range g.Points {
		names = append(names, short(p.Size, g.By == bench.ByResponse))
	}
	return names
}

// short writes a number as it is said: 64K of bytes are 65,536, of anything else
// 64,000.
func short(n int, binary bool) string {
	thousand := 1000
	if binary {
		thousand = 1024
	}
	for i, unit := range []string{"", "K", "M", "G"} {
		if n < thousand || n%thousand != 0 || i == 3 {
			return strconv.Itoa(n) + unit
		}
		n /= thousand
	}
	return ""
}

func title(g bench.Growth) string {
	p := g.Points[len(g.Points)-1]
	said := "Growth by " + g.By
	if g.By != bench.ByCallers {
		said += fmt.Sprintf("; %d callers", p.Callers)
	}
	if g.By != bench.ByResponse {
		said += fmt.Sprintf("; responses of %d bytes", p.ResponseBytes)
	}
	return said + fmt.Sprintf("; each size %d times %.3g s, in turns", g.Rounds, g.SliceSeconds)
}
