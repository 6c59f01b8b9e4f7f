package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekeeper/oncekeeper/internal/tally"
)

// Reading is a metric, and how it is read out of a snapshot.
type Reading[S any] struct {
	Metric
	Read func(S, Out)
}

// Out takes what is read: a value for each series.
type Out struct {
	metric *Metric
	desc   *prometheus.Desc
	to     chan<- prometheus.Metric
}

// Value gives the value of the series that has these label values, in the order of
// the metric's labels.
func (o Out) Value(v float64, labels ...string) {
	as := prometheus.CounterValue
	if o.metric.Type == Gauge {
		as = prometheus.GaugeValue
	}
	o.to <- prometheus.MustNewConstMetric(o.desc, as, v, labels...)
}

// Sizes gives what a histogram has counted.
func (o Out) Sizes(b tally.Buckets, labels ...string) { o.buckets(b, 1, labels) }

// Times gives what a histogram of nanoseconds has counted, in seconds.
func (o Out) Times(b tally.Buckets, labels ...string) { o.buckets(b, 1e9, labels) }

func (o Out) buckets(b tally.Buckets, unit float64, labels []string) {
	upTo := make(map[float64]uint64, len(b.Bounds))
	count := uint64(0)
	for i, bound := range b.Bounds {
		count += b.Counts[i]
		upTo[float64(bound)/unit] = count
	}
	o.to <- prometheus.MustNewConstHistogram(o.desc, b.Count(), float64(b.Sum)/unit, upTo, labels...)
}

// Number reads a metric that has one series.
func Number[S any](read func(S) float64) func(S, Out) {
	return func(s S, out Out) { out.Value(read(s)) }
}

// Collect gives a collector that takes one snapshot each time it is asked, and
// reads everything out of it.
func Collect[S any](take func() S, readings []Reading[S]) prometheus.Collector {
	return CollectOne(nil, take, readings)
}

// CollectOne is Collect for one of several sources that a registry may have of the
// same metrics: which tells them apart, by labels that readings describe and do not
// give.
func CollectOne[S any](which map[string]string, take func() S, readings []Reading[S]) prometheus.Collector {
	c := &collector[S]{take: take, readings: readings}
	for i := range readings {
		c.descs = append(c.descs, describe(&readings[i].Metric, which))
	}
	return c
}

func describe(m *Metric, which map[string]string) *prometheus.Desc {
	var labels []string
	for _, l := range m.Labels {
		if _, constant := which[l.Name]; !constant {
			labels = append(labels, l.Name)
		}
	}
	return prometheus.NewDesc(m.Name, m.Help+".", labels, which)
}

type collector[S any] struct {
	take     func() S
	readings []Reading[S]
	descs    []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector[S]) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector[S]) Collect(to chan<- prometheus.Metric) {
	s := c.take()
	for i := range c.readings {
		r := &c.readings[i]
		r.Read(s, Out{metric: &r.Metric, desc: c.descs[i], to: to})
	}
}

// Of gives the descriptions alone.
func Of[S any](readings []Reading[S]) []Metric {
	all := make([]Metric, len(readings))
	for i, r := range readings {
		all[i] = r.Metric
	}
	return all
}
