package pebble

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// BenchmarkSweep deletes records of 256 bytes, whose keys are in no order, from
// disk, synced, a thousand a call as the background sweeper does; an operation is
// a record.
func BenchmarkSweep(b *testing.B) {
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s := mustOpen(b, Config{Dir: b.TempDir(), Clock: clk})
	fill(b, s, clk, b.N)
	clk.Advance(2 * time.Hour)
	b.ResetTimer()
	swept := sweepAll(b, s, 1000)
	b.StopTimer()
	if swept != int64(b.N) {
		b.Errorf("swept %d of %d", swept, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// fill completes n keys that the clock tells apart.
func fill(t testing.TB, s *Store, clk *clock.Manual, n int) {
	t.Helper()
	body := strings.Repeat("x", 256)
	for at := 0; at < n; at += 500 {
		clk.Advance(time.Millisecond)
		var begins, settles []lifecycle.Command
		for i := at; i < min(n, at+500); i++ {
			begins = append(begins, testBegin(scattered(i), ""))
		}
		for _, res := range s.Apply(t.Context(), begins...) {
			if res.Refusal() != nil {
				t.Fatal(res.Refusal())
			}
			settles = append(settles, testComplete(res.Record.Key.ID, res.Record.Token, body))
		}
		for _, res := range s.Apply(t.Context(), settles...) {
			if res.Refusal() != nil {
				t.Fatal(res.Refusal())
			}
		}
	}
}

// scattered gives an id for i: in another order than i's.
func scattered(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9e3779b97f4a7c15) }

func sweepAll(t testing.TB, s *Store, limit int) (total int64) {
	t.Helper()
	for {
		swept, err := s.Sweep(t.Context(), storage.SweepQuery{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if total += swept.Records; !swept.More {
			return total
		}
	}
}
