package server_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/oncekeeper/oncekeeper/server"
)

// scraped are the series of a registry, as `name{label=value,…}`, and their values;
// of a histogram its count.
type scraped map[string]float64

func scrape(t *testing.T, from prometheus.Gatherer) scraped {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	all := scraped{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[f.GetName()+labelsOf(m)] = valueOf(m)
		}
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	return "{" + strings.Join(labels, ",") + "}"
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	default:
		return float64(m.GetHistogram().GetSampleCount())
	}
}

// of gives the series of one metric, by their labels.
func (s scraped) of(metric string) map[string]float64 {
	some := map[string]float64{}
	for series, value := range s {
		if labels, is := strings.CutPrefix(series, metric+"{"); is {
			some["{"+labels] = value
		}
	}
	return some
}

// anew gives the series of s that before has not.
func (s scraped) anew(before scraped) []string {
	var anew []string
	for _, series := range slices.Sorted(maps.Keys(s)) {
		if _, old := before[series]; !old {
			anew = append(anew, series)
		}
	}
	return anew
}

// wantValues checks some series.
func wantValues(t *testing.T, got scraped, want map[string]float64) {
	t.Helper()
	for series, value := range want {
		if v, there := got[series]; !there || v != value {
			t.Errorf("%s is %v (there: %t), want %v", series, v, there, value)
		}
	}
}

// wantSeries checks that these series are there and no others.
func wantSeries(t *testing.T, got, want map[string]float64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// showing gives a registry, and has a server show its numbers there.
func showing(also ...func(*server.Config)) (*prometheus.Registry, func(*server.Config)) {
	reg := prometheus.NewPedanticRegistry()
	return reg, func(cfg *server.Config) {
		cfg.Metrics = reg
		for _, change := range also {
			change(cfg)
		}
	}
}
