package steps_test

import (
	"testing"

	"github.com/oncekeeper/oncekeeper/client/internal/steps"
)

var settings = []setting{
	{name: "two callers and much that goes wrong", callers: 2, faults: 3},
	{name: "held keys", callers: 3, hold: true, faults: 2},
	{name: "held keys and a reconciler", callers: 2, hold: true, reconciles: true, faults: 2},
	{name: "held keys, one attempt and a reconciler", callers: 2, hold: true, reconciles: true, attempts: 1, faults: 2},
	{name: "takeovers and a reconciler", callers: 2, reconciles: true, faults: 2},
	{name: "one attempt, and outages", callers: 3, attempts: 1, outage: steps.ReceiptsOnly, faults: 2},
	{name: "outages and a lost service", callers: 2, outage: steps.ReceiptsOnly, faults: 2, losses: 1},
	{name: "operators and few attempts", callers: 3, attempts: 1, operators: 1, faults: 1},
	{name: "another request after a loss", callers: 3, others: true, terse: true, losses: 1},
	{name: "outages, and callers that know no receipts", callers: 3, strangers: true, terse: true, outage: steps.ReceiptsOnly, faults: 2},
	{name: "takeovers", callers: 3, faults: 1},
	{name: "outages", callers: 3, terse: true, outage: steps.ReceiptsOnly, faults: 1},
}

func TestNoInterleavingBreaksTheProtocol(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			search := newSearch(s)
			if err := search.run(); err != nil {
				t.Error(err)
			}
			t.Logf("%d worlds, %d records, %d calm", len(search.seen), len(search.records), len(search.calm))
		})
	}
}
