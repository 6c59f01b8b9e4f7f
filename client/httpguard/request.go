package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// Scheme is the name of this package's fingerprints. What it digests is frozen:
// whatever would change a digest is a new scheme.
const Scheme = "http1"

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

// digest is the fingerprint of a request: method, path and query as they came,
// content type and encoding, and the body: as JSON where it is JSON and says so,
// else byte for byte. The parts are joined by fingerprint.Combine.
func digest(r *http.Request, body []byte) []byte {
	content, isJSON := contentType(r.Header.Get("Content-Type"))
	encoding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ","))
	of := fingerprint.Raw(body)
	if isJSON && encoding == "" {
		if canonical, err := fingerprint.JSON(body); err == nil {
			of = canonical
		}
	}
	return fingerprint.Combine(Scheme,
		[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery),
		[]byte(content), []byte(encoding), []byte(of.Scheme), of.Digest).Digest
}

// contentType gives a media type as it is digested, with its parameters in order,
// and whether it is JSON, whose charset says nothing (RFC 8259). One that cannot be
// read stays as it came.
func contentType(field string) (canonical string, isJSON bool) {
	media, params, err := mime.ParseMediaType(field)
	if err != nil {
		return field, false
	}
	isJSON = media == "application/json" || strings.HasSuffix(media, "+json")
	if isJSON {
		delete(params, "charset")
	}
	if canonical = mime.FormatMediaType(media, params); canonical == "" {
		return field, isJSON
	}
	return canonical, isJSON
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
		o.faults.report(r.Context(), o.name, err.Error(), nil)
		return &problem{kind: faultProblem, Detail: "The guard is placed wrongly: its log has it."}
	default:
		o.stats.refused.Add(1)
		return &problem{kind: invalidProblem, Detail: "The request's body did not arrive whole: send the request again."}
	}
}
