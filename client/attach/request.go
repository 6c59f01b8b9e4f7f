package attach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/internal/downstream"
	"github.com/oncekeeper/oncekeeper/client/internal/headerkey"
	"github.com/oncekeeper/oncekeeper/client/internal/httpdigest"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// headerValue gives what a request's Idempotency-Key header is to say, and false
// where it is to have none, or is to keep what it has. A call that it gives is the
// attempt's inside which the request is made, and is to be ended.
func (i *interceptor) headerValue(r *http.Request) (value string, keyed bool, call *downstream.Call, err error) {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return "", false, nil, nil
	}
	written := r.Header.Values(headerkey.Name)
	inHeader, there, err := headerkey.Parse(written)
	if err != nil {
		return "", false, nil, refuseKey("the header " + headerkey.Name + " " + err.Error())
	}
	named, ok := r.Context().Value(transportKey{}).(string)
	switch {
	case ok && there && named != inHeader:
		return "", false, nil, refuseKey("attach.WithKey names another key than the header " + headerkey.Name)
	case there:
		return written[0], true, nil, nil
	case !ok:
		if named, call, err = i.unnamed(r); named == "" || err != nil {
			return "", false, nil, err
		}
	}
	if value, err = headerkey.Format(named); err != nil {
		return "", false, nil, refuseKey("the key of attach.WithKey " + err.Error())
	}
	return value, true, call, nil
}

// unnamed gives the key of a request that names none; "" where it is to have none.
func (i *interceptor) unnamed(r *http.Request) (string, *downstream.Call, error) {
	_, step := downstream.StepOf(r.Context())
	if !step && (i.requests == nil || !i.requests(r)) {
		return "", nil, nil
	}
	// Not the host: the same service may have another one by the next attempt.
	call, err := downstream.Begin(r.Context(), r.Method+" "+r.URL.EscapedPath(), func() (fingerprint.Fingerprint, error) {
		body, err := digestible(r)
		return fingerprint.Fingerprint{Scheme: httpdigest.Scheme, Digest: httpdigest.Digest(r, body)}, err
	})
	switch {
	case err != nil:
		return "", nil, err
	case call != nil:
		return call.Key, call, nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", nil, fmt.Errorf("attach: making a key: %w", err)
	}
	return id.String(), nil, nil
}

// maxDigested of a body is read to tell equal requests.
const maxDigested = 4 << 20

// digestible gives the body of r, which is there to be sent after it.
func digestible(r *http.Request) ([]byte, error) {
	again, ok := bodyAgain(r)
	if !ok {
		return nil, errors.New("attach: the body, by which equal requests are told, can be read only once: name the step by attach.Step, or set Request.GetBody")
	}
	if again == nil {
		return nil, nil
	}
	defer again.Close()
	body, err := io.ReadAll(io.LimitReader(again, maxDigested+1))
	if err == nil && len(body) > maxDigested {
		err = errors.New("attach: the body, by which equal requests are told, is too large for that: name the step by attach.Step")
	}
	return body, err
}

// httpOutcomeKnown says what outcomeKnown says of an answer. A refusal of the
// request as it stands is kept on every attempt; any other may be of one that took
// over, and the doing of the attempt before it.
func httpOutcomeKnown(response *http.Response, err error) bool {
	if err != nil {
		return false
	}
	notKept, _ := oncekeeper.SentinelOf(oncekeeper.ErrResponseNotKept)
	if reasons := response.Header.Values(wire.ReasonTrailer); len(reasons) > 0 {
		return len(reasons) == 1 && reasons[0] == notKept.Reason()
	}
	switch code := response.StatusCode; code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return true
	default:
		return code >= 200 && code < 300
	}
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
