package main

import (
	"regexp"
	"strings"
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestGetShowsWhatAKeyWentThrough(t *testing.T) {
	onBothStores(t, func(t *testing.T, keeper pb.IdempotencyServiceClient) {
		held(t, keeper, "pay", "1")
		if code, _, stderr := command(t, "resolve", "demo", "pay", "1", "--release", "--reason", "no row", "--yes"); code != 0 {
			t.Fatal(stderr)
		}
		if code, _, stderr := command(t, "delete", "demo", "pay", "1", "--reason", "the wrong\u00a0account", "--yes"); code != 0 {
			t.Fatal(stderr)
		}
		held(t, keeper, "pay", "1")
		code, shown, stderr := command(t, "get", "demo", "pay", "1")
		if code != 0 {
			t.Fatal(stderr)
		}
		_, shown, _ = strings.Cut(shown, "what it went through\n")
		const at = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} UTC`
		for i, want := range []string{
			`WHAT +ATTEMPT +FENCING TOKEN +HOLDER +STARTED +ENDED +SAID`,
			`UNKNOWN +1 +\d+ +pod-7 +` + at + ` +` + at + ` +Unknown`,
			`RESOLVED_RELEASED +- +\d+ +- +- +` + at + ` +no row`,
			`DELETED +- +\d+ +- +- +` + at + ` +"the wrong\\u00a0account"`,
			`UNKNOWN +1 +\d+ +pod-7 +` + at + ` +` + at + ` +Unknown`,
		} {
			lines := strings.Split(shown, "\n")
			if i >= len(lines) || !regexp.MustCompile(`^`+want+`$`).MatchString(lines[i]) {
				t.Errorf("line %d is not %s of\n%s", i, want, shown)
			}
		}
		if _, asJSON, _ := command(t, "get", "--json", "demo", "pay", "1"); !strings.Contains(asJSON, `"EVENT_RESOLVED_RELEASED"`) || !strings.Contains(asJSON, `"no row"`) {
			t.Errorf("as JSON it is\n%s", asJSON)
		}
		_, _, looked := asked(t, "n\n", "resolve", "demo", "pay", "1", "--release", "--reason", "again")
		if !strings.Contains(looked, "RESOLVED_RELEASED") {
			t.Errorf("who is to decide is not shown what was decided before:\n%s", looked)
		}
	})
}

func TestGetShowsTheTraceOfTheLastAttempt(t *testing.T) {
	keeper := atService(t, "memory:")
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	if _, err := keeper.Begin(t.Context(), &pb.BeginRequest{
		Key: &pb.Key{Tenant: "demo", Operation: "pay", Id: "1"}, TraceParent: "00-" + trace + "-00f067aa0ba902b7-01",
	}); err != nil {
		t.Fatal(err)
	}
	_, shown, stderr := command(t, "get", "demo", "pay", "1")
	if !regexp.MustCompile(`(?m)^trace +` + trace + `$`).MatchString(shown) {
		t.Errorf("the trace is not shown: %s\n%s", stderr, shown)
	}
	_, shown, _ = command(t, "get", "--json", "demo", "pay", "1")
	if strings.Count(shown, trace) != 2 { // of the record, and of the attempt in its history
		t.Errorf("as JSON it is\n%s", shown)
	}
}
