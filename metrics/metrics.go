// Package metrics is how this module's numbers are told: each is described once,
// in a list that gives both what Prometheus reads and the page that explains it.
//
// It knows how numbers are shown and none of their sources. Those count by
// themselves, by atomics; what is here reads a snapshot when it is asked.
package metrics

import "slices"

// Type is what a metric may do.
type Type string

// The types.
const (
	// Counter only grows, and begins at 0 with the process.
	Counter Type = "counter"
	// Gauge goes up and down.
	Gauge Type = "gauge"
	// Histogram counts by size.
	Histogram Type = "histogram"
)

// Metric describes one.
type Metric struct {
	Name string
	Type Type
	// Help says what it counts, in a sentence or two without a final stop.
	Help string
	// Worry says when somebody should look, or is empty.
	Worry  string
	Labels []Label
}

// Label tells a metric's series apart.
type Label struct {
	Name string
	// Values that it can have, where they are known beforehand.
	Values []string
	// Means says what its values are, where they are not.
	Means string
}

// Takes says whether the label may have such a value.
func (l Label) Takes(value string) bool { return l.Means != "" || slices.Contains(l.Values, value) }

// Section is a part of the page.
type Section struct {
	Title string
	// Text comes before the table.
	Text    string
	Metrics []Metric
}
