package policy

import (
	"strings"
	"testing"
)

func TestWhatChangedIsToldByTheNamesOfRules(t *testing.T) {
	old := parsed(t, whole)
	swapped := func(a, b string) string { return strings.Replace(whole, a, b, 1) }
	for want, text := range map[string]string{
		"nothing":                           "# said otherwise\n" + swapped("7d", "168h"),
		"changed reports":                   swapped("10m", "11m"),
		"changed payouts":                   swapped("acme", "globex"),
		"changed payouts, reports, default": swapped("client_retry: 1d", "client_retry: 2d"),
		"added refunds; removed reports":    swapped("name: reports\n    operation: \"*.report\"", "name: refunds\n    operation: r*"),
		"removed payouts, reports":          whole[:strings.Index(whole, "rules:")],
	} {
		changes := parsed(t, text).Since(old)
		if changes.String() != want || changes.None() != (want == "nothing") {
			t.Errorf("got %q, want %q", changes, want)
		}
	}
	rules := "rules:\n  - {name: a, tenant: a}\n  - {name: b, tenant: b}\n"
	turned := "rules:\n  - {name: b, tenant: b}\n  - {name: a, tenant: a}\n"
	if got := parsed(t, turned).Since(parsed(t, rules)); got.String() != "in another order" || got.None() {
		t.Errorf("got %q", got)
	}
}
