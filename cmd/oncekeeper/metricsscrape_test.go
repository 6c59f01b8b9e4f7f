package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/oncekeeper/oncekeeper/metrics"
	"github.com/oncekeeper/oncekeeper/metrics/storemetrics"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// shape is what the page and a scrape both say of a metric.
type shape struct {
	kind   string
	labels string
}

// page gives the metrics of docs/metrics.md by section.
func page(t *testing.T) map[string]map[string]shape {
	t.Helper()
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	sections, title := map[string]map[string]shape{}, ""
	for line := range strings.Lines(string(text)) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			title = strings.TrimSpace(heading)
			sections[title] = map[string]shape{}
		}
		cells := strings.Split(line, " | ")
		name, kind, is := strings.Cut(strings.TrimPrefix(cells[0], "| `"), "` (")
		if !is || len(cells) != 4 {
			continue
		}
		var labels []string
		for _, label := range strings.Split(cells[2], "; `") {
			if name, _, is := strings.Cut(strings.TrimPrefix(label, "`"), "`: "); is {
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		sections[title][name] = shape{kind: strings.TrimSuffix(kind, ")"), labels: strings.Join(labels, ",")}
	}
	return sections
}

// ofServers gives what page says of servers on one kind of store.
func ofServers(sections map[string]map[string]shape, store string) map[string]shape {
	all := map[string]shape{}
	for _, title := range []string{"Calls", "Waiting", "The store, seen from the server", "Sweeping", store} {
		maps.Copy(all, sections[title])
	}
	return all
}

// scraped gives the metrics of this service on a port, and their series.
func scraped(t *testing.T, port string) (map[string]shape, map[string]*dto.MetricFamily) {
	t.Helper()
	code, text := fetched(t, port, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics gives %d %q", code, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string]shape{}
	for name, family := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			delete(families, name)
			continue
		}
		shapes[name] = shapeOf(t, family)
	}
	return shapes, families
}

// shapeOf fails the test where a metric's series have different labels.
func shapeOf(t *testing.T, family *dto.MetricFamily) shape {
	t.Helper()
	of := map[string]bool{}
	for _, series := range family.GetMetric() {
		var labels []string
		for _, label := range series.GetLabel() {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		of[strings.Join(labels, ",")] = true
	}
	if len(of) != 1 {
		t.Errorf("the series of %s have the labels %q", family.GetName(), slices.Collect(maps.Keys(of)))
	}
	for labels := range of {
		return shape{strings.ToLower(family.GetType().String()), labels}
	}
	return shape{}
}

// use makes calls of each kind, some of which wait, fail and sweep.
func use(t *testing.T, service string) {
	t.Helper()
	keeper := dialled(t, service)
	t.Setenv("ONCEKEEPER_ADDRESS", service)
	ctx := t.Context()
	key := func(id string) *pb.Key { return &pb.Key{Tenant: "demo", Operation: "greet", Id: id} }
	begun, err := keeper.BatchBegin(ctx, &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{{Key: key("1")}, {Key: key("2")}, {Key: key("3")}}})
	if err != nil {
		t.Fatal(err)
	}
	token := func(i int) int64 { return begun.GetResults()[i].GetResponse().GetGrant().GetFencingToken() }
	calls := map[string]func() error{
		"Begin": func() error { _, err := keeper.Begin(ctx, &pb.BeginRequest{Key: key("1")}); return err },
		"Renew": func() error {
			_, err := keeper.Renew(ctx, &pb.RenewRequest{Key: key("1"), FencingToken: token(0)})
			return err
		},
		"Get": func() error { _, err := keeper.Get(ctx, &pb.GetRequest{Key: key("1")}); return err },
		"Complete": func() error {
			_, err := keeper.Complete(ctx, &pb.CompleteRequest{Key: key("1"), FencingToken: token(0), Response: &pb.StoredResponse{}})
			return err
		},
		"Fail": func() error {
			_, err := keeper.Fail(ctx, &pb.FailRequest{Key: key("2"), FencingToken: token(1), Disposition: pb.FailRequest_DISPOSITION_FINAL, Status: &pb.StoredStatus{Code: 9}})
			return err
		},
		"BatchSettle": func() error {
			_, err := keeper.BatchSettle(ctx, &pb.BatchSettleRequest{Settlements: []*pb.Settlement{
				{Settlement: &pb.Settlement_Complete{Complete: &pb.CompleteRequest{Key: key("3"), FencingToken: token(2), Response: &pb.StoredResponse{}}}},
			}})
			return err
		},
	}
	for _, name := range []string{"Begin", "Renew", "Get", "Complete", "Fail", "BatchSettle"} {
		if err := calls[name](); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	_, _ = keeper.Begin(ctx, &pb.BeginRequest{Key: key(" ")})
	for _, args := range [][]string{{"list"}, {"list", "--tenant", "demo"}, {"sweep"}, {"delete", "demo", "greet", "1", "--force", "--yes", "--reason", "a test"}} {
		if code, _, stderr := command(t, args...); code != 0 {
			t.Fatalf("%q exits with %d: %s", args, code, stderr)
		}
	}
}

func TestThePageAndARunningServerHaveTheSameMetrics(t *testing.T) {
	sections := page(t)
	for title, store := range map[string]func(t *testing.T) string{
		"The embedded store": func(t *testing.T) string { return "pebble:" + t.TempDir() },
		"Postgres":           func(t *testing.T) string { return pgtest.Database(t) },
	} {
		t.Run(title, func(t *testing.T) {
			service, port, _, _ := ops(t, store(t))
			use(t, service)
			want := ofServers(sections, title)
			got, families := scraped(t, port)
			for name, is := range got {
				if said, there := want[name]; !there {
					t.Errorf("%s %+v is served, and docs/metrics.md lacks it", name, is)
				} else if said != is {
					t.Errorf("%s is served as %+v, and docs/metrics.md says %+v", name, is, said)
				}
			}
			for name, said := range want {
				if _, there := got[name]; !there {
					t.Errorf("docs/metrics.md has %s %+v, and no series of it is served", name, said)
				}
			}
			for _, odd := range strangeValues(families) {
				t.Error(odd)
			}
		})
	}
}

// strangeValues tells what the descriptions do not let labels be.
func strangeValues(families map[string]*dto.MetricFamily) (strange []string) {
	for _, section := range append(server.Metrics(), storemetrics.Metrics()...) {
		for _, metric := range section.Metrics {
			labels := map[string]metrics.Label{}
			for _, label := range metric.Labels {
				labels[label.Name] = label
			}
			for _, series := range families[metric.Name].GetMetric() {
				for _, label := range series.GetLabel() {
					if !labels[label.GetName()].Takes(label.GetValue()) {
						strange = append(strange, fmt.Sprintf("%s has %s=%q, which its description has not", metric.Name, label.GetName(), label.GetValue()))
					}
				}
			}
		}
	}
	return strange
}
