package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a policy file.
type Fault struct {
	File string
	// Line counts from 1.
	Line   int
	Reason string
}

func (f Fault) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Reason) }

// Faults are all that is wrong with a file, by their lines. It is the error of
// Parse.
type Faults []Fault

// Error gives a line for each fault, FILE:LINE: reason.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// maxFaults bounds what is told of a file that is no policy at all.
const maxFaults = 50

// err gives fs in order, or nil where there are none.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	if len(fs) > maxFaults {
		last := fs[maxFaults-1]
		last.Reason = fmt.Sprintf("and %d more faults", len(fs)-maxFaults+1)
		fs = append(slices.Clip(fs[:maxFaults-1]), last)
	}
	return fs
}

// shown is what of a file's text is repeated to a reader.
func shown(text string) string {
	const limit = 60
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
