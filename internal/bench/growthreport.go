package bench

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// Growth is what was measured at each size of one thing.
type Growth struct {
	By           string  `json:"by"`
	Store        string  `json:"store"`
	SliceSeconds float64 `json:"sliceSeconds"`
	Rounds       int     `json:"rounds"`
	Points       []Point `json:"points"`
	Ratios       []Ratio `json:"ratios"`
}

// Point is one size of what grows.
type Point struct {
	Size          int      `json:"size"`
	Callers       int      `json:"callers"`
	Connections   int      `json:"connections"`
	ResponseBytes int      `json:"responseBytes"`
	Keys          int      `json:"keys"`
	Tenants       int      `json:"tenants"`
	FillSeconds   float64  `json:"fillSeconds"`
	Loads         []Result `json:"loads"`
	// Memory is of the server of this point, or of all points where they share it.
	Memory Memory `json:"memory"`
	Disk   *Disk  `json:"disk,omitempty"`
}

// Memory that a process has resident, in bytes; 0 where that is not known.
type Memory struct {
	Now  int64 `json:"now"`
	Peak int64 `json:"peak"`
}

// Disk is what an embedded store takes of it.
type Disk struct {
	// Directory is the sum of the files' sizes while the service ran.
	Directory int64 `json:"directoryBytes"`
	// Stored is the sum of the records as they are encoded, each with its key, and
	// Records how many they were.
	Stored  int64 `json:"storedBytes"`
	Records int64 `json:"records"`
}

// The bounds that sizes are held to.
const (
	leastOfKeys    = 0.8
	leastOfCallers = 0.9
	leastOfTenants = 0.8
	mostMemoryMiB  = 512
	mostDisk       = 1.5
	// mostQueueing is how many times longer than the average, which is the number of
	// callers over their rate, the slowest of a hundred pairs may take.
	mostQueueing = 3
)

// Judge fills in the ratios.
func (g *Growth) Judge() {
	g.Ratios = nil
	top, ok := g.top()
	if !ok {
		return
	}
	switch g.By {
	case ByKeys:
		g.compare(top, 100_000, leastOfKeys)
		g.atMost(fmt.Sprintf("peak of the server's memory at %d keys, MiB", top.Size), float64(top.Memory.Peak)/(1<<20), mostMemoryMiB, top.Memory.Peak > 0)
		if top.Disk != nil {
			g.atMost(fmt.Sprintf("bytes on disk / bytes stored at %d keys", top.Size), float64(top.Disk.Directory)/float64(top.Disk.Stored), mostDisk, true)
		}
	case ByCallers:
		g.compare(top, 256, leastOfCallers)
		pairs := byName(top.Loads)[Pairs]
		g.atMost(fmt.Sprintf("p99 of a pair / (callers / pairs a second) at %d callers", top.Size),
			pairs.P99/1e6*pairs.PerSecond/float64(top.Callers), mostQueueing, pairs.Units > 0)
	case ByTenants:
		g.compare(top, 1, leastOfTenants)
	}
	g.atMost("calls that failed, and not because the service was overloaded", float64(g.failed()), 0, true)
}

func (g *Growth) top() (top Point, ok bool) {
	for _, p := range g.Points {
		if p.Size >= top.Size {
			top, ok = p, true
		}
	}
	return top, ok
}

// compare holds the rate at the largest size to that at another, where it was
// measured.
func (g *Growth) compare(top Point, size int, least float64) {
	for _, p := range g.Points {
		if p.Size == size && p.Size < top.Size {
			value := byName(top.Loads)[Pairs].PerSecond / byName(p.Loads)[Pairs].PerSecond
			g.Ratios = append(g.Ratios, Ratio{Name: fmt.Sprintf("pairs at %d %s / at %d", top.Size, g.By, size), Value: value, Bound: least})
		}
	}
}

func (g *Growth) atMost(name string, value, bound float64, known bool) {
	if known {
		g.Ratios = append(g.Ratios, Ratio{Name: name, Value: value, Bound: bound, AtMost: true})
	}
}

func (g *Growth) failed() (n int64) {
	for _, p := range g.Points {
		for _, l := range p.Loads {
			n += l.Failed
		}
	}
	return n
}

// Print writes the growth as tables.
func (g Growth) Print(to io.Writer) error {
	_, err := fmt.Fprintf(to, "growth by %s; %s; each size %d times %.3gs, in turns\n", g.By, g.Store, g.Rounds, g.SliceSeconds)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "\n%s\tload\t/s\tp50 ms\tp99 ms\tserver CPU µs\twritten B\toverloaded\tfailed\t\n", g.By)
	for _, p := range g.Points {
		for _, l := range p.Loads {
			_, _ = fmt.Fprintf(table, "%d\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.0f\t%d\t%d\t\n",
				p.Size, l.Load, l.PerSecond, l.P50/1000, l.P99/1000, l.ServerCPU, l.Written, l.Overloaded, l.Failed)
		}
	}
	err = errors.Join(err, table.Flush())
	table = tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "\n%s\tfilled in s\tmemory MiB\tits peak\trecords\tbytes stored\tbytes on disk\t\n", g.By)
	for _, p := range g.Points {
		var d Disk
		if p.Disk != nil {
			d = *p.Disk
		}
		_, _ = fmt.Fprintf(table, "%d\t%.1f\t%d\t%d\t%d\t%d\t%d\t\n", p.Size, p.FillSeconds, p.Memory.Now>>20, p.Memory.Peak>>20, d.Records, d.Stored, d.Directory)
	}
	return errors.Join(err, table.Flush(), printRatios(to, g.Ratios))
}
