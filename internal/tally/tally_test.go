package tally

import (
	"reflect"
	"testing"
)

func TestANumberIsCountedByTheSmallestBoundThatHoldsIt(t *testing.T) {
	h := New(1, 10, 100)
	for _, n := range []int64{0, 1, 2, 10, 11, 100, 101, 5000} {
		h.Add(n)
	}
	got := h.Snapshot()
	want := Buckets{Bounds: []int64{1, 10, 100}, Counts: []uint64{2, 2, 2, 2}, Sum: 5225}
	if !reflect.DeepEqual(got, want) || got.Count() != 8 {
		t.Errorf("got %+v of %d, want %+v of 8", got, got.Count(), want)
	}
}

func TestASnapshotStaysAsItWasTaken(t *testing.T) {
	h := NewTimes()
	before := h.Snapshot()
	h.Add(1)
	if before.Count() != 0 || before.Sum != 0 {
		t.Errorf("a snapshot taken before anything was counted has become %+v", before)
	}
}
