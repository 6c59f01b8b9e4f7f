package soak

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample is what a process takes at a moment.
type sample struct {
	At time.Duration
	// RSS in bytes.
	RSS        int64
	Goroutines int64
	Files      int64
	// Calls that were answered by then.
	Calls int64
}

// room is by how much the last third of a run may be above the middle third: a
// tenth, and what a moment's load makes of difference.
var room = []struct {
	what string
	of   func(sample) int64
	more int64
}{
	{"bytes resident", func(s sample) int64 { return s.RSS }, 16 << 20},
	{"goroutines", func(s sample) int64 { return s.Goroutines }, 32},
	{"open files", func(s sample) int64 { return s.Files }, 32},
}

// judge gives what has grown: where the median of the last third of samples is above
// that of the middle third by more than there is room for. The first third is for
// warming up: pools, caches and tables of files fill to their bounds.
func judge(samples []sample) []string {
	third := len(samples) / 3
	if third < 3 {
		return []string{fmt.Sprintf("%d samples are too few to judge", len(samples))}
	}
	var grown []string
	for _, r := range room {
		middle, last := median(samples[third:2*third], r.of), median(samples[2*third:], r.of)
		if last > middle+middle/10+r.more {
			grown = append(grown, fmt.Sprintf("%s: %d in the middle third, %d in the last", r.what, middle, last))
		}
	}
	return grown
}

// account is a line for each thing that is held flat.
func account(samples []sample) string {
	third := len(samples) / 3
	text := ""
	for _, r := range room {
		text += fmt.Sprintf("%s: %d, %d, %d (medians of the thirds)\n", r.what,
			median(samples[:third], r.of), median(samples[third:2*third], r.of), median(samples[2*third:], r.of))
	}
	return text
}

func median(samples []sample, of func(sample) int64) int64 {
	if len(samples) == 0 {
		return 0
	}
	values := make([]int64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func TestWhatGrowsIsToldAndWhatIsFlatIsNot(t *testing.T) {
	run := func(change func(i int64, s *sample)) (samples []sample) {
		for i := range int64(180) { // thirty minutes, each ten seconds
			s := sample{RSS: 200 << 20, Goroutines: 150 + i%20, Files: 80 + i%5}
			change(i, &s)
			samples = append(samples, s)
		}
		return samples
	}
	for name, c := range map[string]struct {
		change func(i int64, s *sample)
		want   string
	}{
		"flat":                        {func(int64, *sample) {}, ""},
		"a cache that fills at first": {func(i int64, s *sample) { s.RSS += min(i, 60) << 20 }, ""},
		"one sample that sticks out":  {func(i int64, s *sample) { s.Goroutines += 5000 * (i / 179) }, ""},
		"a MiB a sample":              {func(i int64, s *sample) { s.RSS += i << 20 }, "bytes resident"},
		"a goroutine a sample":        {func(i int64, s *sample) { s.Goroutines += i }, "goroutines"},
		"a file a sample":             {func(i int64, s *sample) { s.Files += i }, "open files"},
	} {
		got := strings.Join(judge(run(c.change)), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: judged %q, want %q", name, got, c.want)
		}
	}
	if got := judge(make([]sample, 8)); len(got) != 1 || !strings.Contains(got[0], "too few") {
		t.Errorf("eight samples are judged: %v", got)
	}
}
