package httpguard

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
)

// apart are the codes below 500 that say nothing final of the request.
var apart = map[int]oncekeeper.Settlement{
	// Refused at the door, for who asked or how often.
	http.StatusUnauthorized:    oncekeeper.SettledRetryable,
	http.StatusForbidden:       oncekeeper.SettledRetryable,
	http.StatusTooManyRequests: oncekeeper.SettledRetryable,
	// It may have begun, or meets what another did.
	http.StatusRequestTimeout: oncekeeper.SettledUnknown,
	http.StatusConflict:       oncekeeper.SettledUnknown,
	http.StatusTooEarly:       oncekeeper.SettledUnknown,
}

// ofTheRequest are refusals of the request as it stands, which no earlier
// attempt's effect can bring about: they alone are believed on a takeover. A 402
// may be the money that the first attempt took, a 404 what it deleted, a 422 the
// state that it left.
var ofTheRequest = map[int]bool{
	http.StatusBadRequest:                  true,
	http.StatusMethodNotAllowed:            true,
	http.StatusNotAcceptable:               true,
	http.StatusLengthRequired:              true,
	http.StatusRequestEntityTooLarge:       true,
	http.StatusRequestURITooLong:           true,
	http.StatusUnsupportedMediaType:        true,
	http.StatusExpectationFailed:           true,
	http.StatusRequestHeaderFieldsTooLarge: true,
}

// table says what a handler's status code is settled as.
type table struct{ changed, onTakeover map[int]oncekeeper.Settlement }

func (t table) check() error {
	for _, named := range []map[int]oncekeeper.Settlement{t.changed, t.onTakeover} {
		for status, as := range named {
			switch {
			case status < 200 || status > 599:
				return fmt.Errorf("%d is no status code of an answer", status)
			case status < 300:
				return fmt.Errorf("%d is always kept: it can be settled as nothing else", status)
			case as != oncekeeper.SettledComplete && as != oncekeeper.SettledRetryable && as != oncekeeper.SettledUnknown:
				return fmt.Errorf("%d is settled as complete, retryable or unknown, and not as Settlement(%d)", status, as)
			}
		}
	}
	return nil
}

// said is what is known of an attempt beside the status code of its answer.
type said struct {
	// as is what the handler said itself, or zero.
	as oncekeeper.Settlement
	// takeover: an earlier attempt's effect may stand; receipts: it would have been
	// found.
	takeover, receipts bool
	// rolledBack: the handler's transaction is known to have left nothing.
	rolledBack bool
	// nested: the answer is another guard's refusal.
	nested bool
}

// settlement gives what an answer with status is settled as: by what the handler
// said, else by the table, else by its transaction. Another guard's refusal passes,
// and is never kept.
func (t table) settlement(status int, s said) oncekeeper.Settlement {
	switch {
	case status >= 200 && status < 300:
		return oncekeeper.SettledComplete
	case status < 200 || status > 599:
		return oncekeeper.SettledUnknown
	}
	as, named := s.as, s.as == oncekeeper.SettledComplete || s.as == oncekeeper.SettledRetryable || s.as == oncekeeper.SettledUnknown
	if !named {
		as, named = t.ofStatus(status, s)
	}
	if s.rolledBack && (!named || s.nested) && as != oncekeeper.SettledRetryable {
		return oncekeeper.SettledRetryable
	}
	if s.nested && as == oncekeeper.SettledComplete {
		return oncekeeper.SettledUnknown
	}
	return as
}

// ofStatus gives what status is settled as; named is false where nothing is said of
// it.
func (t table) ofStatus(status int, s said) (as oncekeeper.Settlement, named bool) {
	if s.takeover {
		if as, ok := t.onTakeover[status]; ok {
			return as, true
		}
	}
	as, named = t.changed[status]
	if !named {
		as, named = byDefault(status)
	}
	if s.takeover && !s.receipts && as == oncekeeper.SettledComplete && status >= 400 && !ofTheRequest[status] {
		return oncekeeper.SettledUnknown, true
	}
	return as, named
}

// byDefault says nothing of a 5xx, and of 408, 409 and 425.
func byDefault(status int) (as oncekeeper.Settlement, named bool) {
	if as, ok := apart[status]; ok {
		return as, as != oncekeeper.SettledUnknown
	}
	if status < 500 {
		return oncekeeper.SettledComplete, true
	}
	return oncekeeper.SettledUnknown, false
}

// statusOf gives what is kept of an answer that is not: its code, and nothing of
// its body.
func statusOf(status int) *oncekeeper.Status {
	code, ok := codeOf[status]
	if !ok {
		code = codes.Unknown
	}
	return &oncekeeper.Status{Code: int32(code), Message: fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))}
}

// codeOf is google.rpc.Code's own mapping to HTTP, read backwards.
var codeOf = map[int]codes.Code{
	400: codes.InvalidArgument, 401: codes.Unauthenticated, 403: codes.PermissionDenied, 404: codes.NotFound, 409: codes.Aborted,
	416: codes.OutOfRange, 429: codes.ResourceExhausted, 499: codes.Canceled, 500: codes.Internal, 501: codes.Unimplemented,
	503: codes.Unavailable, 504: codes.DeadlineExceeded,
}

// httpOf is that mapping, for a failure that was kept by a guard of another kind.
func httpOf(code int32) int {
	switch codes.Code(code) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
