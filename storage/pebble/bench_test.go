package pebble

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// BenchmarkPair is a Begin and its Complete, synced, with a response of 256
// bytes.
func BenchmarkPair(b *testing.B) {
	body := strings.Repeat("x", 256)
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := mustOpen(b, Config{Dir: b.TempDir()})
			var n atomic.Int64
			b.SetParallelism(max(1, callers/2))
			b.ReportAllocs()
			pair := func() {
				id := fmt.Sprint(n.Add(1))
				granted := s.Apply(b.Context(), testBegin(id, ""))[0]
				if got := s.Apply(b.Context(), testComplete(id, granted.Record.Token, body))[0]; got.Refusal() != nil {
					b.Error(got.Refusal())
				}
			}
			if callers == 1 {
				for b.Loop() {
					pair()
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					pair()
				}
			})
		})
	}
}

func BenchmarkKeys(b *testing.B) {
	key := testBegin("order-1742", "").Key
	b.Run("record", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = recordKey(key)
		}
	})
	entry := indexKey(spaceExpiry, 1_700_000_000_000_000, key)
	b.Run("of an index entry", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := keyOfIndex(entry); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkQueue is what a call pays to wait for the committer, and the committer to
// take 256 that wait.
func BenchmarkQueue(b *testing.B) {
	var q queue
	q.init(clock.System)
	task := &applyTask{cmds: []lifecycle.Command{testBegin("order-1742", "")}}
	var taken []queued
	b.ReportAllocs()
	for b.Loop() {
		for range 256 {
			if _, err := q.push(task); err != nil {
				b.Fatal(err)
			}
		}
		taken, _ = q.take(taken)
	}
}

// BenchmarkRound is the committer's work for 256 pairs, without the sync.
func BenchmarkRound(b *testing.B) {
	s := mustOpen(b, Config{})
	var n int
	b.ReportAllocs()
	for b.Loop() {
		var begins, settles []lifecycle.Command
		for range 256 {
			n++
			begins = append(begins, testBegin(fmt.Sprint(n), ""))
		}
		for _, res := range s.Apply(b.Context(), begins...) {
			settles = append(settles, testComplete(res.Record.Key.ID, res.Record.Token, "answer"))
		}
		s.Apply(b.Context(), settles...)
	}
}
