package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/oncekeeper/oncekeeper/client/internal/httpdigest"
)

// Scheme is the name of this package's fingerprints. What it digests is frozen:
// whatever would change a digest is a new scheme.
const Scheme = httpdigest.Scheme

// Errors of readBody, beside *http.MaxBytesError.
var (
	errBodyGone = errors.New("the body was read before the guard: put the guard before what reads it, or it cannot tell one request from another")
	errBodyCut  = errors.New("the request's body did not arrive whole")
)

// readBody gives the whole body, which is gone from r then. Nothing is read of one
// that declares more than limit, so that a client that expects 100-continue keeps
// it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, errBodyCut
	case r.ContentLength > int64(len(body)):
		return nil, errBodyGone
	}
	return body, nil
}

// giveBody gives r to the handler with the body that was read of it.
func giveBody(r *http.Request, body []byte) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// refusalOf says how the request is answered whose body could not be read.
func (o *operation) refusalOf(r *http.Request, err error) *problem {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		o.stats.refused.Add(1)
		return &problem{
			kind: tooLargeProblem, Detail: fmt.Sprintf("At most %d bytes of body are taken here.", o.maxRequestBytes),
		}
	case errors.Is(err, errBodyGone):
		o.stats.unavailable.Add(1)
		o.faults.Report(r.Context(), o.name, err.Error(), nil)
		return &problem{kind: faultProblem, Detail: "The guard is placed wrongly: its log has it."}
	default:
		o.stats.refused.Add(1)
		return &problem{kind: invalidProblem, Detail: "The request's body did not arrive whole: send the request again."}
	}
}
