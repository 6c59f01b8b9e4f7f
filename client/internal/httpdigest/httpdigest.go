// Package httpdigest is the fingerprint of an HTTP request, so that both ends of a
// call, and whoever makes it again, mean the same by it.
package httpdigest

import (
	"mime"
	"net/http"
	"strings"

	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// Scheme is the name of these fingerprints. What it digests is frozen: whatever
// would change a digest is a new scheme.
const Scheme = "http1"

// Digest is the fingerprint of a request: method, path and query as they came,
// content type and encoding, and the body: as JSON where it is JSON and says so,
// else byte for byte. The parts are joined by fingerprint.Combine.
func Digest(r *http.Request, body []byte) []byte {
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
