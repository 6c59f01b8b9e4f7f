package attach

import (
	"context"
	"io"
	"net/http"

	"github.com/oncekeeper/oncekeeper/client/internal/headerkey"
	"github.com/oncekeeper/oncekeeper/clock"
)

// Transport is an http.RoundTripper that gives requests their key and waits for
// other attempts.
type Transport struct {
	base     http.RoundTripper
	settings *interceptor
}

// NewTransport does for HTTP what UnaryClientInterceptor does for gRPC, around
// base; nil: http.DefaultTransport. It stands outside of what acts on each attempt
// (tracing, credentials).
//
// A request of an unsafe method has the key that [WithKey] put into its context, or
// that its caller wrote into its Idempotency-Key header; both must be the same key.
// One with neither that [WithRequests] selects is given a new UUIDv7; inside an
// attempt it, and any that [Step] names, is given one derived from the attempt's, as
// the package says: the method is "POST /path", the host being no part of it, and
// equal are requests that a guard's fingerprint calls so. The key goes
// out in quotes, as the draft has it (draft-ietf-httpapi-idempotency-key-header-07),
// and a header that the caller wrote as it was written; the same on every attempt.
//
// It waits on 409 with the header Oncekeeper-Reason: IN_PROGRESS, which a guard
// alone sends of its own operation, for as long as Retry-After says, and then sends
// the request again; with [WithRetryUnavailable] also on 503 and where the
// connection failed. Any other 409 is an answer. A request is sent again only where
// it has no body, or GetBody gives the body anew (http.NewRequest sees to that for
// readers that it knows). No attempt is begun that would start after the context's
// deadline, or where there is none after [WithMaxElapsed]: the last answer is given
// then.
//
// Beside base's errors it gives oncekeeper.ErrInvalidRequest where the named keys
// differ, one is empty, or the header cannot carry one; ErrAtOnce and ErrStep; and an
// error where equal requests cannot be told, since the body cannot be read twice, or
// has more than 4 MiB.
func NewTransport(base http.RoundTripper, options ...Option) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport{base: base, settings: newInterceptor(options)}
}

// RoundTrip sends r, which is not changed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	value, keyed, call, err := t.settings.headerValue(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes it, whatever happens
		}
		return nil, err
	}
	if !keyed {
		return t.base.RoundTrip(r)
	}
	if call == nil {
		return t.repeat(r, value)
	}
	known := false
	defer func() { call.End(known) }() // where it panics, nothing is known
	response, err := t.repeat(r, value)
	known = httpOutcomeKnown(response, err)
	return response, err
}

// CloseIdleConnections closes base's, if it has any: http.Client's method of that
// name asks for it.
func (t *Transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// repeat sends r with the key until its answer stands, it cannot be sent again, or
// there is no time for it.
func (t *Transport) repeat(r *http.Request, value string) (*http.Response, error) {
	s, ctx := t.settings, r.Context()
	end := s.clock.Monotonic() + s.timeLeft(ctx)
	body := r.Body
	for n := 0; ; n++ {
		response, err := t.base.RoundTrip(withBody(r, value, body))
		answer := s.judgeHTTP(r, response, err)
		switch {
		case !answer.retryable:
			if err == nil && response.StatusCode < 400 {
				s.budget.Succeeded()
			}
			return response, err
		case !answer.free && !s.budget.Failed():
			return response, err
		}
		delay := s.delays.Delay(n, answer.hint)
		if delay >= end-s.clock.Monotonic() {
			return response, err
		}
		next, ok := bodyAgain(r)
		if !ok {
			return response, err
		}
		drain(response)
		if err := clock.Sleep(ctx, s.clock, delay); err != nil {
			if next != nil {
				_ = next.Close()
			}
			return nil, err
		}
		body = next
	}
}

// withBody gives a request of its own for one attempt.
func withBody(r *http.Request, value string, body io.ReadCloser) *http.Request {
	out := r.Clone(r.Context())
	if out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header[headerkey.Name] = []string{value}
	out.Body = body
	return out
}

// bodyAgain gives r's body anew; false where there is no such thing.
func bodyAgain(r *http.Request) (io.ReadCloser, bool) {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return r.Body, true
	case r.GetBody == nil:
		return nil, false
	}
	body, err := r.GetBody()
	return body, err == nil
}

// maxDrained of a refusal are read, so that its connection is of use again.
const maxDrained = 64 << 10

func drain(response *http.Response) {
	if response == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
	_ = response.Body.Close()
}

type transportKey struct{}

// WithKey gives a context whose HTTP requests, sent through a Transport, have this
// key. It names one request: two requests with one context are two with one key. An
// empty key is refused when the request is sent, as by Key. Safe methods have none.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, transportKey{}, key)
}

// WithRequests selects requests of a Transport: where selected is true, one of an
// unsafe method that names no key is given one. Select only what goes to a guard:
// nothing else honours a key.
func WithRequests(selected func(r *http.Request) bool) Option {
	return func(i *interceptor) { i.requests = selected }
}
