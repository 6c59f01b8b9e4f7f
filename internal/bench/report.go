package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Report is what was measured. Its JSON is what --json prints.
type Report struct {
	Store         string  `json:"store"`
	Callers       int     `json:"callers"`
	Connections   int     `json:"connections"`
	ResponseBytes int     `json:"responseBytes"`
	Keys          int     `json:"keys"`
	Tenants       int     `json:"tenants"`
	SliceSeconds  float64 `json:"sliceSeconds"`
	Rounds        int     `json:"rounds"`
	BatchItems    int     `json:"batchItems"`
	// Loads with Callers, and One with one caller.
	Loads  []Result `json:"loads"`
	One    []Result `json:"oneCaller"`
	Ratios []Ratio  `json:"ratios"`
}

// Result is of one load. Latencies are of one turn, which of Batches is two calls.
// What a unit (a call, a replay, a pair) took of CPU and disk is 0 where it is not
// known.
type Result struct {
	Load      string  `json:"load"`
	Callers   int     `json:"callers"`
	Units     int64   `json:"units"`
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50Micros"`
	P99       float64 `json:"p99Micros"`
	ServerCPU float64 `json:"serverCPUMicros"`
	ClientCPU float64 `json:"clientCPUMicros"`
	Written   float64 `json:"writtenBytes"`
	// Overloaded calls were refused so, and Failed in any other way; each try counts.
	Overloaded int64 `json:"overloaded,omitempty"`
	Failed     int64 `json:"failed,omitempty"`
}

// Ratio compares two loads of one run.
type Ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Bound is what Value is to be at the least, or where AtMost is set, at the most.
	Bound  float64 `json:"bound"`
	AtMost bool    `json:"atMost,omitempty"`
}

// Holds says whether the value is within its bound.
func (r Ratio) Holds() bool {
	if r.AtMost {
		return r.Value <= r.Bound
	}
	return r.Value >= r.Bound
}

// Short gives the ratios that fall short, in words.
func Short(ratios []Ratio) []string {
	var short []string
	for _, ratio := range ratios {
		if !ratio.Holds() {
			short = append(short, fmt.Sprintf("%s is %.2f, %s %.2f", ratio.Name, ratio.Value, ratio.boundWord(), ratio.Bound))
		}
	}
	return short
}

func (r Ratio) boundWord() string {
	if r.AtMost {
		return "at most"
	}
	return "at least"
}

func ratios(r Report) []Ratio {
	many, one := byName(r.Loads), byName(r.One)
	var out []Ratio
	add := func(name string, value, bound float64, atMost bool, of ...Result) {
		for _, load := range of {
			if load.Units == 0 {
				return
			}
		}
		out = append(out, Ratio{Name: name, Value: value, Bound: bound, AtMost: atMost})
	}
	empty, plain := many[Empty], many[Plain]
	if plain.Units == 0 {
		add("2 x pairs / empty calls", 2*many[Pairs].PerSecond/empty.PerSecond, 0.6, false, empty, many[Pairs])
		add("replays / empty calls", many[Replays].PerSecond/empty.PerSecond, 0.8, false, empty, many[Replays])
		add("2 x coalesced pairs / empty calls", 2*many[Coalesced].PerSecond/empty.PerSecond, 1.2, false, empty, many[Coalesced])
		add("2 x pairs in batches / empty calls", 2*many[Batches].PerSecond/empty.PerSecond, 1.2, false, empty, many[Batches])
	}
	add("pairs / plain SQL pairs", many[Pairs].PerSecond/plain.PerSecond, 1.5, false, plain, many[Pairs])
	add("pairs in batches / plain SQL pairs", many[Batches].PerSecond/plain.PerSecond, 4, false, plain, many[Batches])
	add("one caller: p50 of a pair / (of plain SQL + 2 empty calls)", one[Pairs].P50/(one[Plain].P50+2*one[Empty].P50), 1, true,
		one[Pairs], one[Plain], one[Empty])
	return out
}

func byName(results []Result) map[string]Result {
	named := map[string]Result{}
	for _, r := range results {
		named[r.Load] = r
	}
	return named
}

// Print writes the report as tables.
func (r Report) Print(to io.Writer) error {
	if _, err := fmt.Fprintf(to, "%s; %d keys of %d tenants, responses of %d bytes, %d connections; each load %d times %.3gs, in turns\n",
		r.Store, r.Keys, r.Tenants, r.ResponseBytes, r.Connections, r.Rounds, r.SliceSeconds); err != nil {
		return err
	}
	if err := printLoads(to, r.Loads); err != nil {
		return err
	}
	if r.Callers > 1 {
		if err := printLoads(to, r.One); err != nil {
			return err
		}
	}
	return printRatios(to, r.Ratios)
}

func printRatios(to io.Writer, ratios []Ratio) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nratio\tis\tto reach")
	for _, ratio := range ratios {
		verdict := ""
		if !ratio.Holds() {
			verdict = "\tSHORT"
		}
		_, _ = fmt.Fprintf(table, "%s\t%.2f\t%s %.2f%s\n", ratio.Name, ratio.Value, ratio.boundWord(), ratio.Bound, verdict)
	}
	return table.Flush()
}

func printLoads(to io.Writer, results []Result) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "\nload\tcallers\t/s\tp50 ms\tp99 ms\tserver CPU µs\tclient CPU µs\twritten B\t")
	for _, l := range results {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t\n",
			l.Load, l.Callers, l.PerSecond, l.P50/1000, l.P99/1000, l.ServerCPU, l.ClientCPU, l.Written)
	}
	return table.Flush()
}
