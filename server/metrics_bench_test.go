package server_test

import (
	"testing"
	"time"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// What the numbers cost a call with no disk and no network, as a ratio: calls of a
// server that counts and of one that does not take turns, so that a busy machine is
// the same for both.
func BenchmarkTheNumbersOfACall(b *testing.B) {
	_, config := showing()
	counting, plain := start(b, onPebble(b), setup{config: config}), start(b, onPebble(b), setup{})
	const turn = 100
	call := func(h *harness) time.Duration {
		began := time.Now()
		for range turn {
			if _, err := h.Get(b.Context(), &pb.GetRequest{Key: key("1")}); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began)
	}
	for _, h := range []*harness{counting, plain} {
		h.grant(b, begin("1", "a"))
		call(h)
	}
	var with, without time.Duration
	for b.Loop() {
		with += call(counting)
		without += call(plain)
	}
	b.ReportMetric(float64(with)/float64(without), "counting/plain")
	b.ReportMetric(float64(with)/float64(b.N*turn), "counting-ns/call")
	b.ReportMetric(float64(without)/float64(b.N*turn), "plain-ns/call")
}
