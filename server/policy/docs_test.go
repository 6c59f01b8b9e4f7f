package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const reference = "../../docs/policy.md"

func readReference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheExampleOfTheReferenceIsAPolicyAndMeansWhatItSays(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readReference(t), -1)
	if len(examples) != 1 {
		t.Fatalf("%s has %d examples, want one", reference, len(examples))
	}
	set := parsed(t, examples[0][1])
	payouts, rule := set.For("globex", "payouts.create")
	if rule != "payouts" || !payouts.Hold || payouts.Windows.Settlement != 92*day || payouts.Windows.QueueRedrive != 7*day {
		t.Errorf("a payout has %+v by rule %q", payouts, rule)
	}
	for operation, want := range map[string]string{"refunds.full": "payouts", "reports.daily": "acme-reports", "invoices.send": "default"} {
		if _, rule := set.For("acme", operation); rule != want {
			t.Errorf("%s is of rule %q, want %q", operation, rule, want)
		}
	}
}

func TestTheReferenceNamesEverySettingWithItsBuiltInValueAndEveryWindow(t *testing.T) {
	text := readReference(t)
	builtIn := Default()
	for _, s := range settings {
		row := "| `" + s.name + "` | " + s.show(&builtIn) + " |"
		if window, ok := strings.CutPrefix(s.name, windowPrefix); ok {
			row = "| `" + window + "` |"
		}
		if !strings.Contains(text, row) {
			t.Errorf("%s has no row %s", reference, row)
		}
	}
}
