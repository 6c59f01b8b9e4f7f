package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// FuzzParse: whatever a file holds, it is refused with lines, or a set whose every
// policy is valid, whose every rule can hold, and which explains itself.
func FuzzParse(f *testing.F) {
	f.Add(whole, "acme", "payouts.create")
	f.Fuzz(func(t *testing.T, text, tenant, operation string) {
		set, err := Parse("p.yaml", []byte(text))
		if err != nil {
			told(t, text, err)
			return
		}
		for i := range set.rules {
			r := &set.rules[i]
			if err := r.policy.Validate(); err != nil {
				t.Fatalf("rule %q: %v", r.name, err)
			}
			if !isRuleName(r.name) || set.named(r.name) != r {
				t.Fatalf("rule %d is called %q", i, r.name)
			}
			if len(r.tenant) > 0 && len(r.operation) > 0 {
				agrees(t, set, r.tenant[:1].String(), r.operation[:1].String())
			}
		}
		if err := set.defaults.policy.Validate(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		agrees(t, set, tenant, operation)
		if changes := set.Since(set); !changes.None() {
			t.Fatalf("a set differs from itself: %v", changes)
		}
	})
}

// told fails unless each fault names a line that text has, and says its reason in
// one.
func told(t *testing.T, text string, err error) {
	faults, ok := errors.AsType[Faults](err)
	if !ok || len(faults) == 0 || len(faults) > rulefile.MaxFaults {
		t.Fatalf("got %T: %v", err, err)
	}
	lines := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + 2
	for _, fault := range faults {
		if fault.Line < 1 || fault.Line > lines || fault.Reason == "" || strings.ContainsAny(fault.Reason, "\n\r") {
			t.Fatalf("a fault in line %d of %d: %q", fault.Line, lines, fault.Reason)
		}
	}
}
