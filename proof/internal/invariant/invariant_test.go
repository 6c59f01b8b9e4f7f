package invariant

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
)

const start = oncekeeper.Instant(1_000_000_000)

// at gives an operation that took effect so many milliseconds after the start.
func at(ms int64, o history.Operation) *history.Operation {
	o.ID, o.Call, o.Return = int(ms), ms*10, ms*10+5
	o.Earliest, o.Latest = start+oncekeeper.Instant(ms*1000), start+oncekeeper.Instant(ms*1000+500)
	return &o
}

func begun(ms int64, call, request string, a history.Answer) *history.Operation {
	grant := oncekeeper.Grant{Lease: time.Second, Retention: time.Hour}
	return at(ms, history.Operation{Begin: &lifecycle.Begin{CallID: call, Fingerprint: []byte(request), Grant: grant}, Answer: &a})
}

func granted(ms int64, call string, token int64) *history.Operation {
	now := start + oncekeeper.Instant(ms*1000)
	return begun(ms, call, "request", history.Answer{Verdict: lifecycle.Granted, Token: token, Lease: time.Second, LeaseEnd: now.Add(time.Second)})
}

func completed(ms, token int64, body string, verdict lifecycle.Verdict) *history.Operation {
	return at(ms, history.Operation{
		Settle: &lifecycle.Settle{Token: token, As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: []byte(body)}},
		Answer: &history.Answer{Verdict: verdict, Expires: start.Add(time.Hour)},
	})
}

func replayed(ms, token int64, body string) *history.Operation {
	return begun(ms, "late", "request", history.Answer{Verdict: lifecycle.Replayed, Outcome: &oncekeeper.Outcome{
		Response: &oncekeeper.Response{Body: []byte(body)}, Origin: oncekeeper.OriginAttempt, Token: token,
	}})
}

func shown(ms int64, request string) *history.Operation {
	return at(ms, history.Operation{Get: true, Answer: &history.Answer{Record: &history.View{Fingerprint: []byte(request), Token: 5}}})
}

func deletes(ms int64) *history.Operation {
	return at(ms, history.Operation{Delete: &lifecycle.Delete{}})
}

func another(ms int64, verdict lifecycle.Verdict) *history.Operation {
	return begun(ms, "other", "another", history.Answer{Verdict: verdict})
}

func TestEachInvariantSpeaksWhereItIsBrokenAndNowhereElse(t *testing.T) {
	for name, c := range map[string]struct {
		broken string
		ops    []*history.Operation
	}{
		"two grants at once":                         {OneLiveGrant, []*history.Operation{granted(1, "a", 5), granted(9, "b", 6)}},
		"one token for two calls":                    {OneLiveGrant, []*history.Operation{granted(1, "a", 5), granted(9, "b", 5)}},
		"one token for one call":                     {"", []*history.Operation{granted(1, "a", 5), granted(9, "a", 5)}},
		"a grant behind a lapsed one":                {"", []*history.Operation{granted(1, "a", 5), granted(1500, "b", 6)}},
		"a grant behind a deletion that may be":      {"", []*history.Operation{granted(1, "a", 5), deletes(3), granted(9, "b", 6)}},
		"a smaller token":                            {TokensGrow, []*history.Operation{granted(1, "a", 6), granted(1500, "b", 5)}},
		"a settlement that is lost":                  {SettlementsStand, []*history.Operation{granted(1, "a", 5), completed(2, 5, "paid", lifecycle.Settled), granted(1500, "b", 6)}},
		"a settlement that stands":                   {"", []*history.Operation{granted(1, "a", 5), completed(2, 5, "paid", lifecycle.Settled), replayed(9, 5, "paid")}},
		"a settlement that is changed":               {SettlementsStand, []*history.Operation{granted(1, "a", 5), completed(2, 5, "paid", lifecycle.Settled), completed(3, 5, "free", lifecycle.Settled), replayed(9, 5, "free")}},
		"a replay of nothing":                        {NoEarlyReplay, []*history.Operation{granted(1, "a", 5), replayed(9, 5, "paid")}},
		"a replay of what was refused":               {NoEarlyReplay, []*history.Operation{granted(1, "a", 5), completed(2, 5, "paid", lifecycle.Fenced), replayed(9, 5, "paid")}},
		"a replay before its settlement":             {NoEarlyReplay, []*history.Operation{granted(1, "a", 5), replayed(2, 5, "paid"), completed(9, 5, "paid", lifecycle.Settled)}},
		"another request that passes":                {NoMismatchPasses, []*history.Operation{shown(1, "request"), another(9, lifecycle.InProgress)}},
		"another request that is refused":            {"", []*history.Operation{shown(1, "request"), another(9, lifecycle.Mismatch)}},
		"another request behind a possible deletion": {"", []*history.Operation{shown(1, "request"), deletes(2), another(9, lifecycle.InProgress)}},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, b := range Check(c.ops) {
				names = append(names, b.Invariant)
			}
			switch {
			case c.broken == "" && len(names) > 0:
				t.Errorf("nothing is broken, and it says %q", names)
			case c.broken != "" && (len(names) == 0 || names[0] != c.broken):
				t.Errorf("it says %q, want %q first", names, c.broken)
			}
		})
	}
}
