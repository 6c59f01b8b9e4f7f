package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

const whole = `# What our operations need.
defaults:
  lease: 45s
  retention: 7d
  windows:
    client_retry: 1d
    queue_redrive: 7d
rules:
  - name: payouts
    tenant: acme
    operation: [payouts.*, "refunds.*"]
    retention: 400d
    unsettled_retention: 100d
    on_lease_expiry: hold
    max_attempts: 3
    windows: {settlement: 90d}
  - name: reports
    operation: "*.report"
    lease: 10m
    max_wait: 0s
    max_response_bytes: 16KiB
`

func parsed(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestARuleGivesWhatDiffersFromTheDefaults(t *testing.T) {
	set := parsed(t, whole)
	base := Default()
	base.Lease, base.Retention = 45*time.Second, 7*day
	base.Windows = Windows{ClientRetry: day, QueueRedrive: 7 * day}
	payouts := base
	payouts.Retention, payouts.UnsettledRetention, payouts.Hold, payouts.MaxAttempts = 400*day, 100*day, true, 3
	payouts.Windows.Settlement = 90 * day
	reports := base
	reports.Lease, reports.MaxWait, reports.MaxResponseBytes = 10*time.Minute, 0, 16<<10
	for _, c := range []struct {
		tenant, operation, rule string
		want                    Policy
	}{
		{"acme", "payouts.create", "payouts", payouts},
		{"acme", "refunds.report", "payouts", payouts}, // the first that fits
		{"globex", "payouts.create", "default", base},
		{"globex", "refunds.report", "reports", reports},
		{"acme", "reports", "default", base},
		{"acme", "", "default", base},
	} {
		if got, rule := set.For(c.tenant, c.operation); got != c.want || rule != c.rule {
			t.Errorf("%s %s: rule %q gives %+v\nwant %q, %+v", c.tenant, c.operation, rule, got, c.rule, c.want)
		}
	}
	if got := fmt.Sprint(set.Names()); got != "[payouts reports default]" {
		t.Errorf("the names are %v", got)
	}
}

func TestWhatIsWrongIsToldWithItsLineAllAtOnce(t *testing.T) {
	rule := "rules:\n  - name: a\n    operation: pay\n    "
	for name, c := range map[string]struct {
		file string
		want []string // LINE: and a part of the reason, one for each fault
	}{
		"an empty file":              {" \n", []string{"1: empty"}},
		"a file of comments":         {"# nothing\n", []string{"1: "}},
		"no YAML":                    {"defaults:\n\tlease: 1s\n", []string{"2: no YAML"}},
		"an open bracket":            {"defaults: {lease: 1s\n", []string{"2: no YAML"}},
		"two documents":              {"defaults: {}\n---\ndefaults: {}\n", []string{"1: no YAML"}},
		"a list":                     {"- defaults\n", []string{"1: must be a mapping"}},
		"an unknown section":         {"defaults: {}\nrule: []\n", []string{`2: "rule" is not known in the file`}},
		"an unknown value":           {"defaults:\n  lease: 1s\n  leese: 2s\n", []string{`3: "leese" is not known in defaults`}},
		"an unknown window":          {"defaults:\n  windows:\n    retry: 1d\n", []string{`3: "retry" is not known in windows`}},
		"a window out of its place":  {"defaults:\n  windows.client_retry: 1s\n", []string{"2: not known"}},
		"a key twice":                {"defaults:\n  lease: 1s\n  lease: 2s\n", []string{`3: "lease" is given twice: first in line 2`}},
		"a section twice":            {"defaults: {}\ndefaults: {}\n", []string{"2: given twice: first in line 1"}},
		"an alias":                   {"defaults:\n  lease: &l 1s\n  max_wait: *l\n", []string{"3: is an alias"}},
		"a merge":                    {"defaults: &d\n  lease: 1s\nrules:\n  - <<: *d\n    name: a\n    tenant: a\n", []string{"4: is an alias"}},
		"an alias in a list":         {"defaults: {}\nrules:\n  - &r {name: a, tenant: a}\n  - *r\n", []string{"4: a rule is an alias"}},
		"a key that is no name":      {"defaults:\n  [lease]: 1s\n", []string{"2: a key is a list"}},
		"no value":                   {"defaults:\n  lease:\n", []string{"2: lease has no value"}},
		"a list for a value":         {"defaults:\n  lease: [1s]\n", []string{"2: lease is a list"}},
		"no unit":                    {"defaults:\n  lease: 30\n", []string{"2: write 30s"}},
		"below zero":                 {"defaults:\n  max_wait: -1s\n  max_response_bytes: -1\n  max_attempts: -1\n", []string{"2: below 0", "3: no size", "4: max_attempts -1 is below 0"}},
		"beyond its bound":           {"defaults:\n  lease: 2h\n  max_response_bytes: 4MiB\n  unsettled_retention: 0s\n  max_retention: 99999d\n", []string{"2: lease 2h", "3: max_response_bytes 4MiB", "4: not above 0", "5: longer than 36500d"}},
		"attempts":                   {"defaults:\n  max_attempts: many\n", []string{"2: no limit"}},
		"neither hold nor take over": {"defaults:\n  on_lease_expiry: ask\n", []string{"2: neither take_over nor hold"}},
		"rules that are no list":     {"rules:\n  a: {}\n", []string{"2: must be a list"}},
		"a rule that is no mapping":  {"rules:\n  - pay\n", []string{"2: must be a mapping"}},
		"no name":                    {"rules:\n  - operation: pay\n", []string{"2: no name"}},
		"an empty name":              {"rules:\n  - name: \"\"\n    operation: pay\n", []string{"2: not 1 to 64"}},
		"the name of the defaults":   {"rules:\n  - name: default\n    operation: pay\n", []string{"2: kept for what no rule fits"}},
		"a name that is no label":    {"rules:\n  - operation: pay\n    name: Pay Out\n", []string{"3: metrics are labelled"}},
		"a long name":                {"rules:\n  - operation: pay\n    name: " + strings.Repeat("a", 65) + "\n", []string{"3: metrics are labelled"}},
		"a name twice":               {"rules:\n  - {name: a, tenant: a}\n  - {name: a, tenant: b}\n", []string{"3: taken by the rule in line 2"}},
		"a rule for all":             {"rules:\n  - name: a\n    lease: 1s\n", []string{"2: belongs in defaults"}},
		"an empty pattern":           {"rules:\n  - name: a\n    tenant: \"\"\n", []string{"3: fits nothing"}},
		"no patterns":                {"rules:\n  - name: a\n    tenant: []\n", []string{"3: 0 patterns"}},
		"too many patterns":          {"rules:\n  - name: a\n    tenant: [" + strings.Repeat("a,", 33) + "]\n", []string{"3: 33 patterns"}},
		"a pattern that is too long": {"rules:\n  - name: a\n    tenant: " + strings.Repeat("a", 129) + "*\n", []string{"3: 128 bytes"}},
		"a control character":        {"rules:\n  - name: a\n    tenant: \"a\\tb\"\n", []string{"3: control character"}},
		"white space":                {"rules:\n  - name: a\n    tenant: \" a\"\n", []string{"3: white space"}},
		"two stars":                  {"rules:\n  - name: a\n    tenant: \"a**\"\n", []string{"3: two stars"}},
		"a rule that never holds":    {"rules:\n  - {name: a, operation: pay*}\n  - {name: b, operation: \"pay*out\", tenant: x}\n", []string{`3: the rule "b" never holds: "a" in line 2`}},
		"one of a list is not taken": {"rules:\n  - {name: a, operation: pay*}\n  - {name: b, operation: [pay, get]}\n", nil},
		"a rule's own lease":         {"defaults:\n  max_lease: 1m\n" + rule + "lease: 2m\n", []string{"6: max_lease 1m"}},
		"a default over a rule":      {"defaults:\n  retention: 2d\n" + rule + "max_retention: 1d\n", []string{"6: retention 2d"}},
		"a default that is at fault": {"defaults:\n  lease: 2h\n" + rule + "retention: 1d\n", []string{"2: lease 2h"}},
		"a value that is not read":   {"defaults:\n  max_lease: 1x\n  lease: 2h\n", []string{"2: no duration"}},
		"a short retention":          {"defaults:\n  retention: 6d\n  windows:\n    queue_redrive: 7d\n    client_retry: 1d\n", []string{"4: retention 6d is shorter than the window queue_redrive 7d"}},
		"a rule's short retention":   {"defaults:\n  retention: 7d\n  windows: {queue_redrive: 7d}\n" + rule + "retention: 1d\n", []string{"7: retention 1d is shorter"}},
		"a rule's longer window":     {"defaults:\n  retention: 7d\n" + rule + "windows: {settlement: 8d}\n", []string{"6: window settlement 8d"}},
		"forgotten while unknown":    {"defaults:\n  retention: 60d\n  windows: {settlement: 60d}\n", []string{"3: unsettled_retention 30d is shorter"}},
		"no such window in a rule":   {"defaults:\n  retention: 7d\n  windows: {queue_redrive: 7d}\n" + rule + "retention: 1d\n    windows: {queue_redrive: 0s}\n", nil},
	} {
		_, err := Parse("p.yaml", []byte(c.file))
		faults, _ := errors.AsType[Faults](err)
		ok := len(faults) == len(c.want)
		for i := 0; ok && i < len(faults); i++ {
			line, part, _ := strings.Cut(c.want[i], ": ")
			ok = strings.HasPrefix(faults[i].String(), "p.yaml:"+line+": ") && strings.Contains(faults[i].Reason, part)
		}
		if !ok {
			t.Errorf("%s: got\n%v\nwant %q\n%s", name, err, c.want, c.file)
		}
	}
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	_, err := Parse("p.yaml", []byte("defaults: {}\n#"+strings.Repeat("x", MaxFileBytes)))
	if err == nil || !strings.Contains(err.Error(), "more than 1MiB") {
		t.Errorf("got %v", err)
	}
}

func TestThereAreAtMostAHundredRules(t *testing.T) {
	file := func(n int) string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {name: r%d, tenant: t%d}\n", i, i)
		}
		return b.String()
	}
	parsed(t, file(MaxRules))
	if _, err := Parse("p.yaml", []byte(file(MaxRules+1))); err == nil || !strings.HasPrefix(err.Error(), "p.yaml:102: there are 101 rules") {
		t.Errorf("got %v", err)
	}
}

func TestFaultsOfAFileThatIsNoPolicyAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "key%d: %s\n", i, strings.Repeat("x", 200))
	}
	_, err := Parse("p.yaml", []byte(b.String()))
	if lines := strings.Count(err.Error(), "\n") + 1; lines != rulefile.MaxFaults || !strings.HasSuffix(err.Error(), "and 951 more faults") {
		t.Errorf("%d lines: %v", lines, err)
	}
}
