package steps_test

import "testing"

// mutants are the protocol without one rule each. A rule whose want the search does
// not miss is not needed, or the search does not see enough: both are faults.
var mutants = []struct {
	name    string
	without without
}{
	{"a claim does not wait for another transaction of the key", without{claimWaits: true}},
	{"a claim takes a row that is applied", without{claimUnique: true}},
	{"a claim does not mind the floor", without{claimFloor: true}},
	{"a claim does not compare the request", without{claimRequest: true}},
	{"a claim with no token does not mind the floor", without{bareFloor: true}},
	{"a takeover does not look", without{lookTakeover: true}},
	{"a second attempt does not look", without{lookLater: true}},
	{"a call in an outage does not look", without{lookBare: true}},
	{"a held key is not looked up", without{lookHeld: true}},
	{"a key that is another request's is not looked up", without{lookMismatch: true}},
	{"a look that failed is taken for none", without{failedLookProves: true}},
	{"a final failure does not close", without{closeFinal: true}},
	{"a value without a receipt does not close", without{closeValue: true}},
	{"an attempt that did nothing does not close", without{closeRetryable: true}},
	{"a grant that is given back counts as an attempt, and does not close", without{unrunUncounted: true}},
	{"releasing a held key does not close", without{closeRelease: true}},
	{"closing does not wait for an open transaction", without{closeWaits: true}},
	{"closing lets the attempt's own token pass", without{plusOne: true}},
	{"closing keeps the next token out too", without{noMore: true}},
	{"a closing that timed out is taken for proof", without{timeoutProves: true}},
	{"the receipt yields to what the function says", without{receiptCounts: true}},
	{"a receipt that was found does not settle the key", without{settleFound: true}},
	{"a final failure is given though it could not be closed", without{finalClosed: true}},
	{"a final failure is given though it could not be settled", without{finalKept: true}},
}

func TestEveryRuleIsNeeded(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range settings {
				s.without = m.without
				search := newSearch(s)
				if err := search.run(); err != nil {
					t.Logf("with %s, after %d worlds: %v", s.name, len(search.seen), err)
					return
				}
			}
			t.Error("no setting misses the rule")
		})
	}
}
