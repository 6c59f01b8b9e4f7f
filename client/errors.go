package client

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

var (
	// ErrUnavailable: the service gave no verdict, for all retries: it could not be
	// reached, did not answer in time, is overloaded, or has no store. Whether the
	// call was applied is not known.
	ErrUnavailable = errors.New("oncekeeper: the service cannot be asked now")
	// ErrLeaseLost is the cause of a running function's context when its attempt
	// may have been taken over: its lease could not be renewed in time, or the
	// service said so; then the cause Is that sentinel too.
	ErrLeaseLost = errors.New("oncekeeper: the lease is lost: another attempt may be running")
	// ErrRunTime is the cause of a running function's context when its maximum run
	// time has passed.
	ErrRunTime = errors.New("oncekeeper: the maximum run time has passed")
	// ErrNested: a key was asked for inside its own function, where it would wait
	// for itself.
	ErrNested = errors.New("oncekeeper: the key is being run by this very call")
	// ErrNotRun: an item of a batch was granted, its function did nothing of it, and the
	// grant was given back, counted as no attempt. It comes with the cause of the end
	// of the caller's context, where that is why.
	ErrNotRun = errors.New("oncekeeper: the item was not run, and is as it was: ask again")
	// ErrUndecodable: an outcome is there, and it is not of the type asked for.
	ErrUndecodable = errors.New("oncekeeper: the stored response does not fit the type asked for")
)

// FromError turns the error of any gRPC call into one that Is Oncekeeper's
// sentinel, where it is an error of Oncekeeper: so a caller of a guarded service
// can tell oncekeeper.ErrFingerprintMismatch, ErrInProgress, ErrUnresolved or
// ErrResponseNotKept from the called method's own FAILED_PRECONDITION or ABORTED.
// RetryDelay, Operation and FieldViolations read what it gives, and its gRPC
// status is the one that came. Any other error, and nil, is given as it came. It
// reads the status's details: where a proxy strips them, attach, which sees the
// trailer too, still tells.
func FromError(err error) error { return wire.FromError(err, nil) }

// RetryDelay gives how long the service asks to wait before the next try.
func RetryDelay(err error) (time.Duration, bool) {
	var e *wire.Error
	if errors.As(err, &e) && e.RetryDelay > 0 {
		return e.RetryDelay, true
	}
	return 0, false
}

// Operation gives the operation of the key that an error of this service is
// about, which tells a nested service's error from one's own; empty where it did
// not travel.
func Operation(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Operation
	}
	return ""
}

// FieldViolation is one field of a request that is outside its limits.
type FieldViolation struct{ Field, Description string }

// FieldViolations gives what is wrong with a request that is
// oncekeeper.ErrInvalidRequest.
func FieldViolations(err error) []FieldViolation {
	var e *wire.Error
	if !errors.As(err, &e) {
		return nil
	}
	violations := make([]FieldViolation, 0, len(e.Violations))
	for _, v := range e.Violations {
		violations = append(violations, FieldViolation(v))
	}
	return violations
}

// FailedError is a replay: the operation failed, and this was its answer. It
// gives the stored status to gRPC, and is oncekeeper.ErrAttemptsExhausted where
// the key was given up.
type FailedError struct{ Outcome *oncekeeper.Outcome }

func (e *FailedError) Error() string {
	st := e.Outcome.Status
	return fmt.Sprintf("oncekeeper: the operation failed before: %s: %s", codes.Code(st.Code), st.Message)
}

// GRPCStatus gives the stored status.
func (e *FailedError) GRPCStatus() *status.Status { return GRPCStatus(e.Outcome.Status) }

// Unwrap gives oncekeeper.ErrAttemptsExhausted for a key that was given up, and
// nil for any other failure.
func (e *FailedError) Unwrap() error {
	if e.Outcome.Origin == oncekeeper.OriginExhausted {
		return oncekeeper.ErrAttemptsExhausted
	}
	return nil
}

// NotKeptError is oncekeeper.ErrResponseNotKept: the operation ran, and its
// response was too large to keep.
type NotKeptError struct {
	// Resource is the pointer that the operation left (Attempt.SetResource), or
	// empty.
	Resource string
	// Outcome is what was kept.
	Outcome *oncekeeper.Outcome
	err     error
}

func (e *NotKeptError) Error() string {
	if e.Resource == "" {
		return e.err.Error()
	}
	return fmt.Sprintf("%s: see %s", e.err.Error(), e.Resource)
}

func (e *NotKeptError) Unwrap() error { return e.err }

// refusal gives a sentinel as the error that the service itself would send, so
// that it keeps its reason through a gRPC handler.
func refusal(sentinel error, operation string, d wire.Details) error {
	s, _ := oncekeeper.SentinelOf(sentinel)
	return wire.FromError(wire.Status(s, operation, d).Err(), nil)
}

// cannotTravel refuses what is not UTF-8, which protobuf does not carry. Every
// other limit is the service's to judge.
func cannotTravel(k oncekeeper.Key, scheme string) error {
	for _, f := range []struct{ field, value string }{
		{"key.tenant", k.Tenant}, {"key.operation", k.Operation}, {"key.id", k.ID}, {"fingerprint_scheme", scheme},
	} {
		if !utf8.ValidString(f.value) {
			return notUTF8(f.field)
		}
	}
	return nil
}

// cannotBeSettled is cannotTravel for a settlement: gRPC's own word for it is no
// verdict, and would be asked for again and again.
func cannotBeSettled(s Settlement) error {
	switch {
	case s.Response != nil && !travels(*s.Response):
		return notUTF8("response")
	case s.Status != nil && !utf8.ValidString(s.Status.Message):
		return notUTF8("status.message")
	case s.NotRun && s.As == oncekeeper.SettledComplete: // Complete has no word for it
		return invalid("not_run", "goes with SettledRetryable alone")
	default:
		return cannotTravel(s.Key, "")
	}
}

func notUTF8(field string) error { return invalid(field, "is not UTF-8") }

func invalid(field, why string) error {
	return refusal(oncekeeper.ErrInvalidRequest, "", wire.Details{
		Violations: []wire.FieldViolation{{Field: field, Description: why}},
	})
}

// callError is a call that ended without its caller ending it.
type callError struct {
	call string
	err  error
	// outage: no verdict, for all retries. lost: some try of it got no verdict, and
	// may have been applied.
	outage, lost bool
}

func (e *callError) Error() string { return e.call + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }
func (e *callError) Is(target error) bool {
	return e.outage && target == ErrUnavailable
}

// endedError is a call whose caller's context ended first. It is the context's
// cause, and what the last try gave.
type endedError struct {
	call          string
	cause, ctxErr error
	last          error
	lost          bool // as in callError
}

func (e *endedError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("%s: %v", e.call, e.cause)
	}
	return fmt.Sprintf("%s: %v (before that: %v)", e.call, e.cause, e.last)
}

func (e *endedError) Unwrap() []error {
	errs := []error{e.cause, e.ctxErr}
	if e.last != nil {
		errs = append(errs, e.last)
	}
	return errs
}

// GRPCStatus gives CANCELLED or DEADLINE_EXCEEDED.
func (e *endedError) GRPCStatus() *status.Status {
	return status.New(status.FromContextError(e.ctxErr).Code(), e.Error())
}
