package main

import (
	"context"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// The whole experiment, to the last row. The numbers follow from trouble.go: of
// fifty debits ten fail at first, seven lose an answer, four commit unheard.
func TestOnlyTheGuardedWayChargesEachDebitOnce(t *testing.T) {
	results, err := experiment(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []result{
		// Both messages, and whatever was sent again after a commit.
		{way: "unguarded", balance: -110, rows: 111, double: 61},
		{way: "check-then-act", balance: 0, rows: 100, double: 50},
		{way: "record-first", balance: 600, rows: 40, lost: 10},
		{way: "guarded", guarded: true, balance: 500, rows: 50},
	}
	if len(results) != len(want) {
		t.Fatalf("%d ways were tried, want %d", len(results), len(want))
	}
	for i, r := range results {
		got := r
		got.guard, got.unlike = grpcguard.Stats{}, 0
		if got != want[i] {
			t.Errorf("%s gave\n%+v, want\n%+v", r.way, got, want[i])
		}
	}
	guarded := results[3]
	if guarded.unlike != 0 {
		t.Errorf("%d debits had their two messages answered differently behind the guard", guarded.unlike)
	}
	// Fifty that were charged, twenty that rolled back, four that nobody heard of;
	// every other of the 107 answers that say OK is a replay.
	if g := guarded.guard; g.Ran != 74 || g.Replayed != 57 {
		t.Errorf("the guard counted %+v, want 74 attempts and 57 replays", g)
	}
	if err := judge(results); err != nil {
		t.Errorf("the verdict is %v, want none", err)
	}
}

func TestWithoutItsGuardTheGuardedHandlerIsUnguarded(t *testing.T) {
	w := way{name: "bare", handler: func(s service) paymentsv1.PaymentServiceServer { return guarded{s} }}
	r, err := w.try(bounded(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if r.rows != 111 || r.double != 61 || r.exact() {
		t.Errorf("it gave %+v, want the 111 rows of the unguarded way", r)
	}
}

func TestTheTableSaysWhoIsExact(t *testing.T) {
	var out strings.Builder
	err := printTable(&out, []result{
		{way: "one", balance: 490, rows: 51, double: 1},
		{way: "two", balance: 500, rows: 50},
	})
	const want = `way   balance (want 500)   rows (want 50)   double charges   lost charges   verdict
one   490                  51               1                0              wrong
two   500                  50               0                0              exact
`
	if err != nil || out.String() != want {
		t.Errorf("the table is\n%s(error %v), want\n%s", out.String(), err, want)
	}
}

func TestTheVerdictNeedsTheGuardedWayExactAndTheOthersWrong(t *testing.T) {
	right := result{way: "right", balance: 500, rows: 50}
	guarded := right
	guarded.guarded = true
	differing := guarded
	differing.unlike = 1
	for name, c := range map[string]struct {
		results []result
		fault   string // "": none
	}{
		"as it should be":             {[]result{{way: "double", balance: 490, rows: 51, double: 1}, guarded}, ""},
		"a naive way that is exact":   {[]result{right, guarded}, "right should be wrong"},
		"a guard that charges twice":  {[]result{{way: "guarded", guarded: true, balance: 490, rows: 51, double: 1}}, "guarded should be exact"},
		"one lost, one double":        {[]result{{way: "guarded", guarded: true, balance: 500, rows: 50, double: 1, lost: 1}}, "guarded should be exact"},
		"a guard with two answers":    {[]result{differing}, "answered the two messages of 1 debits differently"},
		"rows that do not add up":     {[]result{{way: "guarded", guarded: true, balance: 510, rows: 50}}, "guarded should be exact"},
		"a balance alone that is off": {[]result{{way: "naive", balance: 510, rows: 50}, guarded}, ""},
	} {
		err := judge(c.results)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: the verdict is %v, want %q", name, err, c.fault)
		}
	}
}

func TestARunThatIsStoppedEndsAndIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, &strings.Builder{}); err == nil {
		t.Error("a run that was stopped before it began gives no error")
	}
}

// bounded makes a fault a failure rather than a hang.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}
