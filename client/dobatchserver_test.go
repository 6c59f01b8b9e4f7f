package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// The service's own bounds: items, bytes of a batch, bytes of its answer.
func TestARealServiceTakesABatchOfAnySizeAndReplaysIt(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	const n, size = 300, 20 << 10
	all := make([]client.Item, n)
	for i := range all {
		all[i].Key = keyNumber(i)
	}
	want := func(i int) string { return fmt.Sprint(i, strings.Repeat(".", size)) }
	runs := make([]int, n)
	run := func(_ context.Context, granted granted) error {
		for _, a := range granted {
			runs[a.Item]++
			a.Done(want(a.Item))
		}
		return nil
	}
	for _, time := range []string{"first", "second"} {
		for i, r := range client.DoBatch(t.Context(), keeper, all, run, client.WithCodec(text{})) {
			if r.Err != nil || r.Value != want(i) || runs[i] != 1 {
				t.Fatalf("the %s time item %d got %d bytes, %v, and has run %d times", time, i, len(r.Value), r.Err, runs[i])
			}
		}
	}
}
