package pace

import (
	"math"
	"testing"
	"time"
)

// An exponent that is not bounded overflows, and retries in a hot loop.
func TestDelaysOfAnyAttemptStayWithinTheirBounds(t *testing.T) {
	for _, d := range []Delays{
		NewDelays(50*time.Millisecond, 2*time.Second),
		NewDelays(time.Millisecond, math.MaxInt64),
		NewDelays(time.Second, time.Second),
		NewDelays(0, 0),
		NewDelays(-time.Second, -time.Minute),
		NewDelays(math.MaxInt64, 1),
	} {
		if d.shortest < time.Millisecond || d.longest < d.shortest {
			t.Fatalf("bounds %v", d)
		}
		for n := range 201 {
			for range 20 {
				if got := d.Delay(n, 0); got < d.shortest || got > d.longest {
					t.Fatalf("%v.Delay(%d, 0) = %v, outside its bounds", d, n, got)
				}
			}
		}
	}
}

func TestDelaysGrowAndAreJittered(t *testing.T) {
	d := NewDelays(100*time.Millisecond, time.Hour)
	for n, bound := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
		seen := map[time.Duration]bool{}
		longest := time.Duration(0)
		for range 200 {
			delay := d.Delay(n, 0)
			seen[delay] = true
			longest = max(longest, delay)
		}
		if longest > bound || longest < bound*3/4 {
			t.Errorf("the longest of 200 delays after attempt %d is %v, want nearly %v", n, longest, bound)
		}
		if len(seen) < 100 {
			t.Errorf("200 delays after attempt %d have %d values: no jitter", n, len(seen))
		}
	}
}

func TestADelayThatTheServerAsksForIsHonoured(t *testing.T) {
	d := NewDelays(50*time.Millisecond, 2*time.Second)
	for _, hint := range []time.Duration{1, time.Second, time.Minute, math.MaxInt64 - 1, math.MaxInt64} {
		for n := range 201 {
			got := d.Delay(n, hint)
			if got < hint || got < d.shortest {
				t.Fatalf("delay(%d, %v) = %v, sooner than asked", n, hint, got)
			}
			if got > d.longest && got-hint > hint/5 {
				t.Fatalf("delay(%d, %v) = %v, more than a fifth above", n, hint, got)
			}
		}
	}
	seen := map[time.Duration]bool{}
	for range 200 {
		seen[d.Delay(0, time.Minute)] = true
	}
	if len(seen) < 100 {
		t.Errorf("200 delays of a minute have %d values: those who wait for one key come back at once", len(seen))
	}
}

func TestTheBudgetStopsRetriesAtHalfAndSuccessesRefillIt(t *testing.T) {
	b := NewBudget(10, 0.1)
	for n := 1; n <= 4; n++ {
		if !b.Failed() {
			t.Fatalf("refused after %d failures, want 4 allowed", n)
		}
	}
	for range 20 {
		if b.Failed() {
			t.Fatal("allowed with half the tokens or less")
		}
	}
	for range 60 {
		b.Succeeded()
	}
	if b.Failed() {
		t.Fatal("allowed after 60 successes, which make 6 tokens, of which this failure took one")
	}
	for range 20 {
		b.Succeeded()
	}
	if !b.Failed() {
		t.Fatal("refused after 20 more successes")
	}
	for range 1000 {
		b.Succeeded()
	}
	if b.tokens != 10 {
		t.Fatalf("%v tokens, want no more than 10", b.tokens)
	}
	if NewBudget(0, 1).Failed() {
		t.Fatal("a budget of no tokens allowed a retry")
	}
}
