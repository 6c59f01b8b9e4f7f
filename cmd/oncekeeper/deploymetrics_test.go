package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/oncekeeper/oncekeeper/metrics"
	"github.com/oncekeeper/oncekeeper/metrics/storemetrics"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

const deployDir = "../../deploy"

var dashboardRules = flag.String("dashboard-rules", "", "write the dashboard's expressions into this file, as rules that promtool checks")

// alert is a rule of deploy/prometheus/alerts.yaml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	readYAML(t, "prometheus/alerts.yaml", &file)
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(deployFile(t, name), into); err != nil {
		t.Fatalf("deploy/%s: %v", name, err)
	}
}

func deployFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// panel is a part of the dashboard.
type panel struct {
	ID          int
	Type, Title string
	Targets     []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	if err := json.Unmarshal(deployFile(t, "grafana/oncekeeper.json"), &board); err != nil {
		t.Fatal(err)
	}
	return board.Panels
}

// variables are what Grafana puts into an expression.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$job", "oncekeeper", "$instance", ".*")

// expressions gives what the dashboard and the alerts ask for, by where they do.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range panels(t) {
		for i, target := range p.Targets {
			all[fmt.Sprintf("panel %s, %d", p.Title, i)] = variables.Replace(target.Expr)
		}
	}
	for _, a := range alerts(t) {
		all["alert "+a.Alert] = a.Expr
	}
	if len(all) < 50 {
		t.Fatalf("the dashboard and the alerts have %d expressions: some are not found", len(all))
	}
	return all
}

// shown gives the labels of each series that a scrape of a server has. What the
// descriptions say of servers is held to be so by
// TestThePageAndARunningServerHaveTheSameMetrics.
func shown(t *testing.T) map[string][]metrics.Label {
	t.Helper()
	target := []metrics.Label{{Name: "job", Means: "the scrape's"}, {Name: "instance", Means: "the scrape's"}}
	all := map[string][]metrics.Label{"up": target}
	reg, err := registry(storage.Store(nil))
	if err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families { // go_* and process_*
		all[family.GetName()] = target
	}
	for _, section := range slices.Concat(server.Metrics(), storemetrics.Metrics()) {
		for _, m := range section.Metrics {
			labels := slices.Concat(target, m.Labels)
			if m.Type != metrics.Histogram {
				all[m.Name] = labels
				continue
			}
			all[m.Name+"_sum"], all[m.Name+"_count"] = labels, labels
			all[m.Name+"_bucket"] = append(slices.Clone(labels), metrics.Label{Name: "le", Means: "a bound"})
		}
	}
	return all
}

func TestTheDashboardAndTheAlertsAskForMetricsAndLabelsThatServersHave(t *testing.T) {
	has := shown(t)
	for where, expr := range expressions(t) {
		for _, fault := range judgeQuery(has, expr) {
			t.Errorf("%s: %s", where, fault)
		}
	}
}

// judgeQuery says what of an expression no server has.
func judgeQuery(has map[string][]metrics.Label, expr string) (faults []string) {
	q, err := readQuery(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var known []string
	for _, s := range q.selections {
		labels, is := has[s.metric]
		if !is {
			faults = append(faults, "no server has the metric "+s.metric)
		}
		for _, l := range labels {
			known = append(known, l.Name)
		}
		for _, m := range s.matchers {
			if is && !fits(labels, m) {
				faults = append(faults, fmt.Sprintf("%s has no %s%s%q", s.metric, m.label, m.op, m.value))
			}
		}
	}
	for _, label := range q.labels {
		if !slices.Contains(known, label) {
			faults = append(faults, fmt.Sprintf("none of its metrics has the label %s", label))
		}
	}
	return faults
}

// fits: there may be a series that m is about. Of a regular expression only a list of
// values is looked into.
func fits(labels []metrics.Label, m matcher) bool {
	at := slices.IndexFunc(labels, func(l metrics.Label) bool { return l.Name == m.label })
	if at < 0 {
		return false
	}
	values := []string{m.value}
	if strings.HasSuffix(m.op, "~") {
		values = strings.Split(m.value, "|")
	}
	return !slices.ContainsFunc(values, func(v string) bool { return !labels[at].Takes(v) })
}

func TestAnExpressionThatAsksForWhatNoServerHasIsFound(t *testing.T) {
	has := shown(t)
	for expr, want := range map[string]string{
		`oncekeeper_verdicts_total{result="granted"}`:                  "",
		`oncekeeper_verdict_total`:                                     "oncekeeper_verdict_total",
		`oncekeeper_verdicts_total{result="gone"}`:                     "result",
		`oncekeeper_verdicts_total{result=~"granted|gone"}`:            "result",
		`oncekeeper_verdicts_total{tenant="acme"}`:                     "tenant",
		`sum by (tenant) (oncekeeper_verdicts_total)`:                  "tenant",
		`rate(oncekeeper_store_call_seconds_bucket{le="1"}[5m])`:       "",
		`rate(oncekeeper_store_call_seconds[5m])`:                      "oncekeeper_store_call_seconds",
		`process_start_time_seconds{job="oncekeeper"} + go_goroutines`: "",
		`oncekeeper_client_applied_total`:                              "oncekeeper_client_applied_total",
	} {
		faults := strings.Join(judgeQuery(has, expr), "; ")
		if (want == "") != (faults == "") || !strings.Contains(faults, want) {
			t.Errorf("of %s it is said %q, want %q", expr, faults, want)
		}
	}
}

func TestEveryPanelAsksForSomethingAndHasAnIdentityOfItsOwn(t *testing.T) {
	seen := map[int]string{}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for _, p := range panels(t) {
		if other, is := seen[p.ID]; is {
			t.Errorf("the panels %q and %q have the same id, %d", p.Title, other, p.ID)
		}
		seen[p.ID] = p.Title
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("the panel %q asks for %d things", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			fmt.Fprintf(&rules, "      - {record: asked, expr: %q, labels: {panel: %q, number: \"%d\"}}\n", variables.Replace(target.Expr), p.Title, rules.Len())
		}
	}
	if *dashboardRules != "" {
		if err := os.WriteFile(*dashboardRules, []byte(rules.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const runbooks = "https://github.com/oncekeeper/oncekeeper/blob/main/docs/operations.md#"

// labelOfTemplate is one that an annotation shows.
var labelOfTemplate = regexp.MustCompile(`\$labels\.(\w+)`)

func TestEveryAlertHasARunbookThatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if marks, title, is := strings.Cut(strings.TrimSpace(line), " "); is && strings.Trim(marks, "#") == "" {
			sections[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = true
		}
	}
	has := shown(t)
	for _, a := range alerts(t) {
		section, is := strings.CutPrefix(a.Annotations["runbook"], runbooks)
		if !is || !sections[section] {
			t.Errorf("the runbook of %s is %q, which docs/operations.md has not", a.Alert, a.Annotations["runbook"])
		}
		if !slices.Contains([]string{"page", "ticket"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s has the severity %q and the summary %q", a.Alert, a.Labels["severity"], a.Annotations["summary"])
		}
		q, _ := readQuery(a.Expr)
		known := q.labels
		for _, s := range q.selections {
			for _, l := range has[s.metric] {
				known = append(known, l.Name)
			}
		}
		for _, shows := range labelOfTemplate.FindAllStringSubmatch(a.Annotations["summary"], -1) {
			if !slices.Contains(known, shows[1]) {
				t.Errorf("the summary of %s shows the label %s, which it has not", a.Alert, shows[1])
			}
		}
	}
}

// TestEveryAlertIsTriedInBothDirections is about the file that promtool runs.
func TestEveryAlertIsTriedInBothDirections(t *testing.T) {
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "prometheus/alerts_test.yaml", &file)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, tried := range test.AlertRuleTest {
			if len(tried.ExpAlerts) > 0 {
				fires[tried.Alertname] = true
			} else {
				quiet[tried.Alertname] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !quiet[a.Alert] {
			t.Errorf("deploy/prometheus/alerts_test.yaml shows %s firing: %t, and quiet: %t; want both", a.Alert, fires[a.Alert], quiet[a.Alert])
		}
	}
}
