package main

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/oncekeeper/oncekeeper/client/clientmetrics"
	"github.com/oncekeeper/oncekeeper/metrics"
	"github.com/oncekeeper/oncekeeper/metrics/storemetrics"
	"github.com/oncekeeper/oncekeeper/server"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

const (
	metricsPage  = "../../docs/metrics.md"
	metricsIntro = `# Metrics

What ` + "`/metrics`" + ` tells, on the port of ` + "`serve --http`" + `, and what a Go caller's own process may. This page is made from the code: ` + "`make metrics-docs`" + `.

No label is a caller's word: neither tenant, key nor operation is one, and whatever callers send, the series are as many as
methods, verdicts and the policy's rules give. ` + "`go_*` and `process_*`" + ` are Prometheus' own, about the process.

`
)

func TestThePageOfMetricsIsWhatTheCodeGives(t *testing.T) {
	want := metricsIntro + metrics.Page(slices.Concat(server.Metrics(), storemetrics.Metrics(), clientmetrics.Metrics()))
	if *update {
		if err := os.WriteFile(metricsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/metrics.md is not what the code gives: run make metrics-docs")
	}
}
