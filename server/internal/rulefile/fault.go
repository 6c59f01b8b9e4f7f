package rulefile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	File string
	// Line counts from 1.
	Line   int
	Reason string
}

func (f Fault) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Reason) }

// Faults are all that is wrong with a file, by their lines. It is an error.
type Faults []Fault

// Error gives a line for each fault, FILE:LINE: reason.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// MaxFaults bounds what is told of a file that is something else altogether.
const MaxFaults = 50

// Err gives fs in order, or nil where there are none.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	if len(fs) > MaxFaults {
		last := fs[MaxFaults-1]
		last.Reason = fmt.Sprintf("and %d more faults", len(fs)-MaxFaults+1)
		fs = append(slices.Clip(fs[:MaxFaults-1]), last)
	}
	return fs
}

// Shown is what of a file's text is repeated to a reader.
func Shown(text string) string {
	const limit = 60
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
