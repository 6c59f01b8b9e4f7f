package pebble

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/storage"
)

func TestASweepPassesOverWhatWasDeletedAndOverNothingElse(t *testing.T) {
	const n = 2 * sweepBatch
	for name, first := range map[string]storage.SweepQuery{
		"of everything":      {Limit: n / 2},
		"of nobody":          {Limit: 10, Tenant: "nobody"},
		"of one operation":   {Limit: n - 2, Operation: "o"},
		"that only counts":   {Limit: n - 1, DryRun: true},
		"with a longer wait": {Limit: n - 1, Grace: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			s := mustOpen(t, Config{Dir: "d", FS: vfs.NewMem(), Clock: clk})
			other := oncekeeper.Key{Tenant: "t", Operation: "other", ID: "first"}
			began, settled := testBegin("", ""), testComplete("", 0, "")
			began.Key, settled.Key = other, other
			settled.Token = s.Apply(t.Context(), began)[0].Record.Token
			s.Apply(t.Context(), settled)
			fill(t, s, clk, n-1)
			clk.Advance(time.Hour)
			swept, err := s.Sweep(t.Context(), first)
			if err != nil {
				t.Fatal(err)
			}
			if first.DryRun {
				swept.Records = 0
			}
			for _, want := range []int64{n - swept.Records, 0} {
				if got := sweepAll(t, s, 10); got != want {
					t.Errorf("behind a sweep of %d there were %d, want %d", swept.Records, got, want)
				}
			}
			fill(t, s, clk, 1)
			clk.Advance(time.Hour)
			if got := sweepAll(t, s, 10); got != 1 {
				t.Errorf("what expired later: %d swept, want 1", got)
			}
		})
	}
}
