package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// few letters, so that what is drawn fits often.
func drawn(t *rapid.T, label string, alphabet string) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 0, 8, -1).Draw(t, label)
}

func TestAUniformSetHoldsForEveryKey(t *testing.T) {
	p := Default()
	p.MaxAttempts = 7
	set, err := Uniform(p)
	if err != nil {
		t.Fatal(err)
	}
	if got, rule := set.For("any", "thing"); got != p || rule != DefaultRule {
		t.Errorf("got %+v by %q", got, rule)
	}
	if _, err := Uniform(Policy{}); err == nil {
		t.Error("a policy that gives nothing is taken")
	}
}

// agrees fails unless Explain says what For gives.
func agrees(t interface{ Fatalf(string, ...any) }, set *Set, tenant, operation string) {
	p, name := set.For(tenant, operation)
	e := set.Explain(tenant, operation)
	if e.Rule != name || len(e.Values) != settingCount {
		t.Fatalf("%q %q: For gives %q, Explain %+v", tenant, operation, name, e)
	}
	var again Policy
	for i, v := range e.Values {
		if err := settings[i].read(&again, strings.TrimSuffix(v.Value, " (no limit)")); err != nil {
			t.Fatalf("%s is explained as %q, which is not read: %v", v.Name, v.Value, err)
		}
	}
	if again != p {
		t.Fatalf("%q %q: For gives %+v, Explain %+v", tenant, operation, p, again)
	}
	for i, passed := range e.Passed {
		if passed.Reason == "" || passed.Rule != set.rules[i].name {
			t.Fatalf("%q %q: passed over %+v", tenant, operation, passed)
		}
	}
	if len(e.Passed) != len(set.rules) && set.rules[len(e.Passed)].name != name {
		t.Fatalf("%q %q: rule %q is neither passed nor holds", tenant, operation, set.rules[len(e.Passed)].name)
	}
}

func TestExplainAgreesWithFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := BuiltIn()
		for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
			r := rule{name: fmt.Sprint("r", i), line: i + 1, policy: Default()}
			r.policy.MaxAttempts = int32(i)
			for range rapid.IntRange(0, 2).Draw(t, "tenants") {
				r.tenant = append(r.tenant, rulefile.NewPattern(drawn(t, "tenant", "ab*")))
			}
			for range rapid.IntRange(0, 2).Draw(t, "operations") {
				r.operation = append(r.operation, rulefile.NewPattern(drawn(t, "operation", "ab*")))
			}
			set.rules = append(set.rules, r)
		}
		agrees(t, set, drawn(t, "key tenant", "ab"), drawn(t, "key operation", "ab"))
	})
}

func TestAnExplanationSaysWhereEachValueIsGiven(t *testing.T) {
	e := parsed(t, whole).Explain("globex", "daily.report")
	if e.Rule != "reports" || e.Line != 17 || len(e.Passed) != 1 ||
		e.Passed[0].Reason != "the tenant does not fit acme; the operation does not fit payouts.*, refunds.*" {
		t.Errorf("got %+v", e)
	}
	want := map[string]string{
		"lease": "10m rule reports, line 19", "retention": "7d defaults, line 4", "max_lease": "1h built in",
		"windows.queue_redrive": "7d defaults, line 7", "max_attempts": "0 (no limit) built in",
	}
	for _, v := range e.Values {
		if w, ok := want[v.Name]; ok && v.Value+" "+v.From.String() != w {
			t.Errorf("%s is %s %s, want %s", v.Name, v.Value, v.From, w)
		}
	}
}

func TestRulesAreListedWithWhatTheyGive(t *testing.T) {
	var lines []string
	for _, r := range parsed(t, whole).Rules() {
		line := r.Name + " | " + r.Tenant + " | " + r.Operation + " |"
		for _, v := range r.Gives {
			line += " " + v.Name + "=" + v.Value
		}
		lines = append(lines, line)
	}
	want := `payouts | acme | payouts.*, refunds.* | retention=400d unsettled_retention=100d max_attempts=3 on_lease_expiry=hold windows.settlement=90d
reports | * | *.report | lease=10m max_wait=0s max_response_bytes=16KiB
default | * | * | lease=45s retention=7d windows.client_retry=1d windows.queue_redrive=7d`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAskingWhichPolicyHoldsAllocatesNothing(t *testing.T) {
	set := hundred(t)
	if n := testing.AllocsPerRun(100, func() { set.For("tenant-of-none", "operation.of.none") }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// hundred is as many rules as there may be, of which none fits most keys.
func hundred(t testing.TB) *Set {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range MaxRules {
		fmt.Fprintf(&b, "  - {name: r%d, tenant: \"*-%d\", operation: [\"payments.v%d.*\", \"*.service%d/*.create\"]}\n", i, i, i, i)
	}
	return parsed(t, b.String())
}

func BenchmarkFor(b *testing.B) {
	few := parsed(b, whole)
	for name, c := range map[string]struct {
		set               *Set
		tenant, operation string
	}{
		"defaults alone":     {BuiltIn(), "acme", "payouts.create"},
		"first of two rules": {few, "acme", "payouts.create"},
		"none of two rules":  {few, "globex", "invoices.Send"},
		"none of a hundred":  {hundred(b), "globex-x", "invoices.v1.InvoiceService/Send"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.set.For(c.tenant, c.operation)
			}
		})
	}
}
