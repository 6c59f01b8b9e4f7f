package attach

import (
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// pushbackTrailer is gRPC A6's: milliseconds until the next attempt.
const pushbackTrailer = "grpc-retry-pushback-ms"

// answer is what a failed attempt means for the next.
type answer struct {
	// retryable: of a kind that another attempt may change.
	retryable bool
	// refused: the server asks for no further attempt.
	refused bool
	// free: it takes nothing from the retry budget, as WithBudget says.
	free bool
	// hint is the least delay that the server asks for.
	hint time.Duration
}

// judge reads a failed attempt's answer, as wire.FromError gave it. A guarded service's error about another
// operation came from further down, and is nothing to wait for here.
func judge(operation string, err error, trailer metadata.MD, retryUnavailable bool) answer {
	var ours *wire.Error
	known := errors.As(err, &ours)
	if known && !about(ours, operation, trailer) {
		return answer{}
	}
	inProgress := known && errors.Is(ours, oncekeeper.ErrInProgress)
	if !inProgress && !(retryUnavailable && status.Code(err) == codes.Unavailable) {
		return answer{}
	}
	a := answer{retryable: true}
	if known && ours.RetryDelay > 0 {
		a.free, a.hint = inProgress, ours.RetryDelay
	}
	if values := trailer.Get(pushbackTrailer); len(values) > 0 {
		pushback, ok := readPushback(values)
		if !ok {
			return answer{retryable: true, refused: true}
		}
		a.free, a.hint = inProgress, max(a.hint, pushback)
	}
	return a
}

// about says whether the error is the called operation's own. Where the details
// were stripped on the way it names no operation; a trailer does not come from
// further down by itself, so it tells who answered.
func about(e *wire.Error, operation string, trailer metadata.MD) bool {
	if e.Operation != "" {
		return e.Operation == operation
	}
	sentinel, _ := oncekeeper.SentinelOf(e)
	reasons := trailer.Get(wire.ReasonTrailer)
	return len(reasons) == 1 && reasons[0] == sentinel.Reason()
}

// readPushback is false for what A6 reads as "do not retry": a negative number,
// no number of 32 bits, and more than one.
func readPushback(values []string) (time.Duration, bool) {
	if len(values) != 1 {
		return 0, false
	}
	ms, err := strconv.ParseInt(values[0], 10, 32)
	if err != nil || ms < 0 {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}
