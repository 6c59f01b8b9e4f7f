package attach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/headerkey"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// headerValue gives what a request's Idempotency-Key header is to say, and false
// where it is to have none, or is to keep what it has.
func (i *interceptor) headerValue(r *http.Request) (value string, keyed bool, err error) {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return "", false, nil
	}
	written := r.Header.Values(headerkey.Name)
	inHeader, there, err := headerkey.Parse(written)
	if err != nil {
		return "", false, refuseKey("the header " + headerkey.Name + " " + err.Error())
	}
	named, ok := r.Context().Value(transportKey{}).(string)
	switch {
	case ok && there && named != inHeader:
		return "", false, refuseKey("attach.WithKey names another key than the header " + headerkey.Name)
	case there:
		return written[0], true, nil
	case !ok && (i.requests == nil || !i.requests(r)):
		return "", false, nil
	case !ok:
		id, err := uuid.NewV7()
		if err != nil {
			return "", false, fmt.Errorf("attach: making a key: %w", err)
		}
		named = id.String()
	}
	if value, err = headerkey.Format(named); err != nil {
		return "", false, refuseKey("the key of attach.WithKey " + err.Error())
	}
	return value, true, nil
}

func refuseKey(what string) error {
	return fmt.Errorf("attach: %w: %s", oncekeeper.ErrInvalidRequest, what)
}

// judgeHTTP reads an attempt's answer.
func (i *interceptor) judgeHTTP(r *http.Request, response *http.Response, err error) answer {
	if err != nil {
		return answer{retryable: i.retryUnavailable && passing(r, err)}
	}
	inProgress, _ := oncekeeper.SentinelOf(oncekeeper.ErrInProgress)
	reasons := response.Header.Values(wire.ReasonTrailer)
	running := response.StatusCode == http.StatusConflict && len(reasons) == 1 && reasons[0] == inProgress.Reason()
	if !running && !(i.retryUnavailable && response.StatusCode == http.StatusServiceUnavailable) {
		return answer{}
	}
	hint := retryAfter(response.Header.Get("Retry-After"), i.clock.Now())
	return answer{retryable: true, free: running && hint > 0, hint: hint}
}

// passing says whether what kept r from being answered may be over soon: not its
// caller's leaving, nor what the other end is.
func passing(r *http.Request, err error) bool {
	var certificate *tls.CertificateVerificationError
	return r.Context().Err() == nil && !errors.Is(err, context.Canceled) && !errors.As(err, &certificate) &&
		(r.URL.Scheme == "http" || r.URL.Scheme == "https")
}

// retryAfter reads seconds or a date (RFC 9110, section 10.2.3); 0: none.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
