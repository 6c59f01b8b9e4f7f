package client

import (
	"math"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// An exponential pause overflows where its exponent is not bounded, and then
// retries in a hot loop.
func TestAPauseIsAlwaysWithinItsBounds(t *testing.T) {
	bounds := []backoff{
		{min: DefaultMinBackoff, max: DefaultMaxBackoff},
		{min: 1, max: math.MaxInt64},
		{min: time.Second, max: time.Second},
		{min: 3, max: 5},
	}
	for _, b := range bounds {
		for n := range 201 {
			for _, r := range []float64{0, 0.25, 0.5, math.Nextafter(1, 0)} {
				if d := b.pause(n, 0, r); d < b.min || d > b.max {
					t.Fatalf("pause %d of %+v drawn at %v is %v", n, b, r, d)
				}
			}
		}
	}
}

func TestAPauseGrowsAndIsSpread(t *testing.T) {
	b := backoff{min: 50 * time.Millisecond, max: 2 * time.Second}
	nearlyOne := math.Nextafter(1, 0)
	for n, ceiling := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		ceiling *= time.Millisecond
		if d := b.pause(n, 0, nearlyOne); d < ceiling-time.Microsecond || d > ceiling {
			t.Errorf("pause %d is at most %v, want %v", n, d, ceiling)
		}
		if d := b.pause(n, 0, 0); d != b.min {
			t.Errorf("pause %d is at least %v, want %v", n, d, b.min)
		}
	}
}

func TestAHintIsKeptAndSpread(t *testing.T) {
	b := backoff{min: 50 * time.Millisecond, max: 2 * time.Second}
	if d := b.pause(0, 7*time.Second, 0); d != 7*time.Second {
		t.Errorf("a hint of 7 s gives %v", d)
	}
	if d := b.pause(0, 7*time.Second, 0.5); d <= 7*time.Second || d > 7*time.Second+b.max {
		t.Errorf("a hint of 7 s is spread to %v", d)
	}
	for n := range 201 {
		if d := b.pause(n, math.MaxInt64, 0.99); d < maxHint || d > maxHint+b.max {
			t.Fatalf("an endless hint gives %v", d)
		}
	}
}

func TestTheBudgetStopsRetriesBelowHalfAndRefills(t *testing.T) {
	b := newRetryBudget(10, 0.5)
	for n := 1; n <= 4; n++ {
		if !b.failed() {
			t.Fatalf("failure %d is refused its retry", n)
		}
	}
	for range 100 {
		if b.failed() {
			t.Fatal("a retry with half the tokens gone")
		}
	}
	for range 13 { // from none to 6.5
		b.succeeded()
	}
	if !b.failed() {
		t.Error("no retry though the budget has refilled")
	}
	for range 1000 {
		b.succeeded()
	}
	if b.tokens != 10 {
		t.Errorf("%v tokens, want no more than 10", b.tokens)
	}
}

func TestALeaseIsNeverShortened(t *testing.T) {
	l := newLease(clock.NewManual(time.Unix(1, 0)), &Grant{Lease: time.Minute})
	l.extend(time.Second, 30*time.Second)
	if left, length := l.left(); left != 59*time.Second || length != time.Minute {
		t.Errorf("%v left of %v, want 59 s of a minute", left, length)
	}
	l.extend(time.Second, time.Minute)
	if left, _ := l.left(); left != time.Minute {
		t.Errorf("%v left, want a minute", left)
	}
}

func TestTheMarginIsATenthWithinBounds(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		0:                      0,
		60 * time.Millisecond:  30 * time.Millisecond,
		200 * time.Millisecond: 50 * time.Millisecond,
		2 * time.Second:        200 * time.Millisecond,
		30 * time.Second:       time.Second,
		time.Hour:              time.Second,
	} {
		if got := lease - trustedUntil(0, lease); got != want {
			t.Errorf("the margin of %v is %v, want %v", lease, got, want)
		}
	}
}
