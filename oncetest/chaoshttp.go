package oncetest

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

// errAnswerLost is what a connection that breaks looks like.
var errAnswerLost = errors.New("oncetest: the answer was lost")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// SendTwiceTransport is SendTwice for HTTP, around base. A request with a body needs
// GetBody, as http.NewRequest sets it for readers that it knows.
func SendTwiceTransport(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		twin := r.Clone(r.Context())
		if r.Body != nil && r.Body != http.NoBody {
			if r.GetBody == nil {
				return nil, fmt.Errorf("oncetest: %s %s has a body that cannot be sent twice: set GetBody", r.Method, r.URL.Path)
			}
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			twin.Body = body
		}
		if response, err := base.RoundTrip(twin); err == nil {
			_ = response.Body.Close()
		}
		return base.RoundTrip(r)
	})
}

// LoseAnswersTransport is LoseAnswers for HTTP, around base: of the next n requests
// that are answered below 400 the caller gets an error of the connection.
func LoseAnswersTransport(base http.RoundTripper, n int) http.RoundTripper {
	var lost atomic.Int64
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := base.RoundTrip(r)
		if err != nil || response.StatusCode >= 400 || lost.Add(1) > int64(n) {
			return response, err
		}
		_ = response.Body.Close()
		return nil, errAnswerLost
	})
}
