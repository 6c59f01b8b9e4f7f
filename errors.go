package oncekeeper

import (
	"errors"
	"slices"
)

// ErrorDomain is the domain of the google.rpc.ErrorInfo on every error of this
// service.
const ErrorDomain = "oncekeeper"

// The sentinels: one for each ErrorReason of the wire contract. They are the
// same on both sides of it: errors.Is(err, ErrFenced) works in a store, in the
// server and in a caller.
var (
	// ErrInvalidRequest: a field is outside its limits. Mend the request.
	ErrInvalidRequest = sentinel("INVALID_REQUEST", "the request is invalid")
	// ErrFingerprintMismatch: the key was begun with another request. Use a new
	// key for a new request.
	ErrFingerprintMismatch = sentinel("FINGERPRINT_MISMATCH", "the key was begun with another request: use a new key for a new request")
	// ErrFenced: a later attempt has the key. Stop; its outcome counts.
	ErrFenced = sentinel("FENCED", "a later attempt has the key: stop, its outcome counts")
	// ErrAlreadySettled: the attempt, call or record is over, settled otherwise.
	ErrAlreadySettled = sentinel("ALREADY_SETTLED", "it is already settled, and otherwise: begin again to read the outcome")
	// ErrUnresolved: an attempt ended with no known outcome and the key is held.
	ErrUnresolved = sentinel("UNRESOLVED", "nobody knows whether it ran: the key is held until it is resolved")
	// ErrKeyNotFound: no record, or it expired.
	ErrKeyNotFound = sentinel("KEY_NOT_FOUND", "there is no record of the key, or it expired")
	// ErrOverloaded: a bounded queue is full. Retry after the delay given.
	ErrOverloaded = sentinel("OVERLOADED", "too many calls at once: retry after the delay given")
	// ErrStoreUnavailable: nothing was decided, or it is not known. Retry.
	ErrStoreUnavailable = sentinel("STORE_UNAVAILABLE", "the store cannot answer now: retry with the same call id")
	// ErrInProgress: another attempt is running. Retry after the delay given.
	ErrInProgress = sentinel("IN_PROGRESS", "another attempt is running: retry after the delay given")
	// ErrResponseNotKept: it ran, and its response was too large to keep.
	ErrResponseNotKept = sentinel("RESPONSE_NOT_KEPT", "it ran, and its response was too large to keep")
	// ErrUnauthenticated: who is calling is not known.
	ErrUnauthenticated = sentinel("UNAUTHENTICATED", "the caller is not known: give a valid credential")
	// ErrPermissionDenied: the caller may not do this.
	ErrPermissionDenied = sentinel("PERMISSION_DENIED", "the caller may not do this")
	// ErrAttemptsExhausted: the attempts of the key are used up.
	ErrAttemptsExhausted = sentinel("ATTEMPTS_EXHAUSTED", "its attempts are used up")
	// ErrAskAlone: the answer is too large to travel in a batch.
	ErrAskAlone = sentinel("ASK_ALONE", "the answer is too large to travel in a batch: ask for it alone")
	// ErrEtagMismatch: the record changed since its etag was read.
	ErrEtagMismatch = sentinel("ETAG_MISMATCH", "the record changed since it was read: read it again")
)

// Error is a sentinel: an ErrorReason of the wire contract and what the reader
// can do.
type Error struct{ reason, text string }

func (e *Error) Error() string { return "oncekeeper: " + e.text }

// Reason is the ErrorReason's name without its prefix ("FENCED").
func (e *Error) Reason() string { return e.reason }

// Text is what the error says, with no prefix.
func (e *Error) Text() string { return e.text }

var sentinels = map[string]*Error{}

func sentinel(reason, text string) error {
	e := &Error{reason: reason, text: text}
	sentinels[reason] = e
	return e
}

// SentinelOf gives the sentinel in err's chain.
func SentinelOf(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// SentinelFor gives the sentinel whose Reason it is.
func SentinelFor(reason string) (*Error, bool) {
	e, ok := sentinels[reason]
	return e, ok
}

// Final marks err as the operation's answer: it failed, no retry will change
// that, and nothing was done that must be undone. Later callers get the same
// failure back. Final(nil) is nil.
func Final(err error) error { return mark(err, SettledFinal) }

// NotApplied marks err as known to have done nothing: the next attempt may run.
// NotApplied(nil) is nil.
func NotApplied(err error) error { return mark(err, SettledRetryable) }

// RolledBack marks err as that of a transaction that was the operation's effect
// and is known to have left nothing. It is weaker than Final and NotApplied, which
// SettlementOf reads through it, and than a guard's own table of codes: where those
// say nothing, the attempt is as NotApplied has it. A transaction with a receipt
// marks its own errors. RolledBack(nil) is nil.
func RolledBack(err error) error {
	if err == nil {
		return nil
	}
	return &rolledBack{err}
}

// IsRolledBack says whether RolledBack marked err. Of errors that were joined, all
// must be marked.
func IsRolledBack(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *rolledBack:
		return true
	case *past:
		return false
	case interface{ Unwrap() error }:
		return IsRolledBack(e.Unwrap())
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !IsRolledBack(err) })
	default:
		return false
	}
}

// Past gives err as told by an attempt that is over: it reads as before, and what
// Final, NotApplied or RolledBack said of it no longer counts. A mark speaks for its
// own attempt; an attempt around it may have done more. Past(nil) is nil.
func Past(err error) error {
	if err == nil {
		return nil
	}
	return &past{err}
}

// SettlementOf says what an error of an operation is settled as: what Final or
// NotApplied marked it, the outermost mark counting, and SettledUnknown otherwise.
// Of errors that were joined, all must say the same.
func SettlementOf(err error) Settlement {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *marked:
		return e.as
	case *past:
		return SettledUnknown
	case interface{ Unwrap() error }:
		return SettlementOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		return joined(e.Unwrap())
	default:
		return SettledUnknown
	}
}

func joined(errs []error) Settlement {
	if len(errs) == 0 {
		return SettledUnknown
	}
	first := SettlementOf(errs[0])
	for _, err := range errs[1:] {
		if SettlementOf(err) != first {
			return SettledUnknown
		}
	}
	return first
}

type marked struct {
	err error
	as  Settlement
}

func mark(err error, as Settlement) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, as: as}
}

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

type rolledBack struct{ err error }

func (r *rolledBack) Error() string { return r.err.Error() }
func (r *rolledBack) Unwrap() error { return r.err }

type past struct{ err error }

func (p *past) Error() string { return p.err.Error() }
func (p *past) Unwrap() error { return p.err }
