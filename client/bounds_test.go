package client

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

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

func TestAServersHintIsBounded(t *testing.T) {
	c := New(nil)
	overloaded, _ := oncekeeper.SentinelOf(oncekeeper.ErrOverloaded)
	endless := wire.FromError(wire.Status(overloaded, "", wire.Details{RetryDelay: 24 * time.Hour}).Err(), nil)
	for n := range 201 {
		if d := c.pause(n, endless); d < maxHint || d > maxHint+maxHint/5 {
			t.Fatalf("a hint of a day has try %d come back after %v, want a minute or little more", n, d)
		}
	}
}

// What is too much is settled again as less; a service that is busy takes it whole
// later.
func TestTooMuchIsWhatIsNeverTaken(t *testing.T) {
	overloaded, _ := oncekeeper.SentinelOf(oncekeeper.ErrOverloaded)
	invalid, _ := oncekeeper.SentinelOf(oncekeeper.ErrInvalidRequest)
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"larger than the transport takes": {status.Error(codes.ResourceExhausted, "larger than max"), true},
		"larger than the service takes":   {wire.FromError(wire.Status(invalid, "", wire.Details{}).Err(), nil), true},
		"busy":                            {wire.FromError(wire.Status(overloaded, "", wire.Details{}).Err(), nil), false},
		"down":                            {errNoAnswer, false},
		"none":                            {nil, false},
	} {
		if got := tooMuch(tc.err); got != tc.want {
			t.Errorf("%s: tooMuch = %v", name, got)
		}
	}
}
