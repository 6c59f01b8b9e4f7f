package httpguard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// kind is one sort of refusal, as docs/http.md lists them. The types are names and
// no addresses; they do not change.
type kind struct {
	status int
	uri    string
	title  string
	// reason is the ErrorReason that it stands for; nil: none.
	reason error
}

var (
	keyMissingProblem = kind{http.StatusBadRequest, "urn:oncekeeper:key-required", "Idempotency-Key is missing", oncekeeper.ErrInvalidRequest}
	invalidProblem    = kind{http.StatusBadRequest, "urn:oncekeeper:invalid-request", "The request is invalid", oncekeeper.ErrInvalidRequest}
	tenantProblem     = kind{http.StatusForbidden, "urn:oncekeeper:permission-denied", "The caller may not do this", oncekeeper.ErrPermissionDenied}
	inProgressProblem = kind{http.StatusConflict, "urn:oncekeeper:in-progress", "A request is outstanding for this Idempotency-Key", oncekeeper.ErrInProgress}
	unresolvedProblem = kind{http.StatusConflict, "urn:oncekeeper:unresolved", "Nobody knows whether the request took effect", oncekeeper.ErrUnresolved}
	exhaustedProblem  = kind{http.StatusConflict, "urn:oncekeeper:attempts-exhausted", "The attempts of this Idempotency-Key are used up", oncekeeper.ErrAttemptsExhausted}
	notKeptProblem    = kind{http.StatusConflict, "urn:oncekeeper:response-not-kept", "The request took effect before, and its answer was not kept", oncekeeper.ErrResponseNotKept}
	tooLargeProblem   = kind{http.StatusRequestEntityTooLarge, "urn:oncekeeper:request-too-large", "The request's body is too large", oncekeeper.ErrInvalidRequest}
	mismatchProblem   = kind{http.StatusUnprocessableEntity, "urn:oncekeeper:fingerprint-mismatch", "Idempotency-Key is already used", oncekeeper.ErrFingerprintMismatch}
	faultProblem      = kind{http.StatusInternalServerError, "about:blank", "Internal Server Error", nil}
	unavailable       = kind{http.StatusServiceUnavailable, "urn:oncekeeper:store-unavailable", "The request was not run: ask again", oncekeeper.ErrStoreUnavailable}
	overloaded        = kind{http.StatusServiceUnavailable, "urn:oncekeeper:overloaded", "The request was not run: ask again later", oncekeeper.ErrOverloaded}
	unknownProblem    = kind{http.StatusServiceUnavailable, "urn:oncekeeper:outcome-unknown", "It is not known whether the request took effect", nil}
)

// failedType is of a failure that was kept by a guard of another kind, or by an
// operator. Its status is the failure's.
const failedType = "urn:oncekeeper:failed"

// problem is a refusal (RFC 9457).
type problem struct {
	kind `json:"-"`
	// delay becomes Retry-After, in whole seconds and at least one; 0: none.
	delay time.Duration
	// replayed: an earlier attempt gave it.
	replayed bool

	Detail string
	// Resource is what SetResource left, and ResponseStatus what was answered.
	Resource       string
	ResponseStatus int32
	// FencingToken and AttemptNumber name the attempt that someone has to settle.
	FencingToken  int64
	AttemptNumber int32
}

type problemBody struct {
	Type           string `json:"type"`
	Title          string `json:"title"`
	Status         int    `json:"status"`
	Detail         string `json:"detail,omitempty"`
	Reason         string `json:"reason,omitempty"`
	Operation      string `json:"operation"`
	Resource       string `json:"resource,omitempty"`
	ResponseStatus int32  `json:"response_status,omitempty"`
	FencingToken   int64  `json:"fencing_token,omitempty"`
	AttemptNumber  int32  `json:"attempt_number,omitempty"`
}

// refuse answers with p.
func (o *operation) refuse(w http.ResponseWriter, p *problem) {
	body := problemBody{
		Type: p.uri, Title: p.title, Status: p.status, Detail: p.Detail, Operation: o.name,
		Resource: p.Resource, ResponseStatus: p.ResponseStatus, FencingToken: p.FencingToken, AttemptNumber: p.AttemptNumber,
	}
	h := w.Header()
	for _, of := range []string{"Content-Encoding", "Content-Length", "Etag", "Last-Modified"} {
		h.Del(of) // of another body
	}
	if s, ok := oncekeeper.SentinelOf(p.reason); ok {
		body.Reason = s.Reason()
		h.Set(reasonHeader, s.Reason())
	}
	if p.replayed {
		h.Set(replayedHeader, "true")
	}
	if p.delay > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.delay+time.Second-1)/time.Second), 10))
	}
	if isLinkTarget(p.Resource) {
		h.Add("Link", "<"+p.Resource+`>; rel="related"`)
	}
	if o.cfg.Documentation != "" {
		h.Add("Link", "<"+o.cfg.Documentation+`>; rel="describedby"`)
	}
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	// That the other end left is nobody's fault here.
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body)
}

// isLinkTarget says whether s can stand in a Link header as it is: an http address
// or a path. A pointer of another form is in the problem alone, since a client
// would resolve it against an address that nobody meant.
func isLinkTarget(s string) bool {
	if !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '<' || c == '>' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
