package pebble

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
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
