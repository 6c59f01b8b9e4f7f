package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
)

// lastTimestamp is the last moment that google.protobuf.Timestamp may name.
var lastTimestamp = oncekeeper.InstantOf(time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC))

// InstantToProto gives nil for none. A moment past the year 9999, the end of
// google.protobuf.Timestamp, is given as that end.
func InstantToProto(i oncekeeper.Instant) *timestamppb.Timestamp {
	if i == 0 {
		return nil
	}
	return timestamppb.New(min(i, lastTimestamp).Time())
}

// InstantFromProto gives none for nil, rounds down to the microsecond, and gives
// an error for a timestamp outside the years 1 to 9999 or with malformed nanos.
func InstantFromProto(p *timestamppb.Timestamp) (oncekeeper.Instant, error) {
	if p == nil {
		return 0, nil
	}
	if err := p.CheckValid(); err != nil {
		return 0, fmt.Errorf("malformed timestamp: %w", err)
	}
	return oncekeeper.InstantOf(p.AsTime()), nil
}

// readInstant reads a timestamp that a server gave to be read, none where it is
// malformed.
func readInstant(p *timestamppb.Timestamp) oncekeeper.Instant {
	i, err := InstantFromProto(p)
	if err != nil {
		return 0
	}
	return i
}

// DurationToProto gives d, zero included. Where a field's zero and its absence
// differ, the caller leaves it out: see OptionalDurationToProto.
func DurationToProto(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// OptionalDurationToProto gives nil, which is unset, for zero.
func OptionalDurationToProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// DurationFromProto gives zero for nil, and the longest time.Duration (or the
// shortest) where p is more than one can hold. It gives an error for a duration
// that is malformed: seconds and nanos of different signs, or out of range.
func DurationFromProto(p *durationpb.Duration) (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	if err := p.CheckValid(); err != nil {
		return 0, fmt.Errorf("malformed duration: %w", err)
	}
	return p.AsDuration(), nil
}
