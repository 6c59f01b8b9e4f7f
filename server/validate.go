package server

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// invalid is a request that is outside its limits. It is ErrInvalidRequest.
type invalid struct{ violations []wire.FieldViolation }

func (e *invalid) Error() string {
	return e.violations[0].Field + ": " + e.violations[0].Description
}
func (e *invalid) Unwrap() error { return oncekeeper.ErrInvalidRequest }

// fields gathers what is wrong with a request, by the path of each field. Values
// are never named: they may be key material.
type fields struct {
	// prefix is before every path: an item of a batch ("requests[3].").
	prefix     string
	violations []wire.FieldViolation
}

func (f *fields) refuse(path, format string, args ...any) {
	f.violations = append(f.violations, wire.FieldViolation{
		Field: f.prefix + path, Description: fmt.Sprintf(format, args...),
	})
}

// err gives nil where nothing is wrong.
func (f *fields) err() error {
	if len(f.violations) == 0 {
		return nil
	}
	return &invalid{violations: f.violations}
}

func (f *fields) key(path string, p *pb.Key) oncekeeper.Key {
	if p == nil {
		f.refuse(path, "is required")
		return oncekeeper.Key{}
	}
	f.keyPart(path+".tenant", p.GetTenant(), oncekeeper.MaxTenantBytes)
	f.keyPart(path+".operation", p.GetOperation(), oncekeeper.MaxOperationBytes)
	f.keyPart(path+".id", p.GetId(), oncekeeper.MaxIDBytes)
	return wire.KeyFromProto(p)
}

// keyPart is the one judge of a key's parts.
func (f *fields) keyPart(path, part string, limit int) {
	first, _ := utf8.DecodeRuneInString(part)
	last, _ := utf8.DecodeLastRuneInString(part)
	switch {
	case part == "":
		f.refuse(path, "is required")
	case len(part) > limit:
		f.refuse(path, "has %d bytes; at most %d are taken", len(part), limit)
	case !utf8.ValidString(part):
		f.refuse(path, "is not valid UTF-8")
	case hasControl(part):
		f.refuse(path, "has a control character")
	case unicode.IsSpace(first) || unicode.IsSpace(last):
		f.refuse(path, "has white space at an end")
	}
}

func hasControl(s string) bool { return strings.IndexFunc(s, unicode.IsControl) >= 0 }

// text is a string that people and databases read: bounded, with no control
// characters.
func (f *fields) text(path, s string, limit int) string {
	switch {
	case len(s) > limit:
		f.refuse(path, "has %d bytes; at most %d are taken", len(s), limit)
	case !utf8.ValidString(s):
		f.refuse(path, "is not valid UTF-8")
	case hasControl(s):
		f.refuse(path, "has a control character")
	}
	return s
}

func (f *fields) bytes(path string, b []byte, limit int) []byte {
	if len(b) > limit {
		f.refuse(path, "has %d bytes; at most %d are taken", len(b), limit)
	}
	return b
}

// duration gives zero for unset; set, it must be positive.
func (f *fields) duration(path string, p *durationpb.Duration) time.Duration {
	d := f.anyDuration(path, p)
	if p != nil && d <= 0 {
		f.refuse(path, "is not above zero: leave it unset for the default")
		return 0
	}
	return d
}

// wait gives zero for unset; set, it must not be negative.
func (f *fields) wait(path string, p *durationpb.Duration) time.Duration {
	d := f.anyDuration(path, p)
	if d < 0 {
		f.refuse(path, "is below zero")
		return 0
	}
	return d
}

// anyDuration gives one nanosecond, which is positive, for a malformed duration,
// so that it is refused once.
func (f *fields) anyDuration(path string, p *durationpb.Duration) time.Duration {
	d, err := wire.DurationFromProto(p)
	if err != nil {
		f.refuse(path, "is malformed: seconds and nanos are out of range or of different signs")
		return time.Nanosecond
	}
	return d
}

func (f *fields) token(path string, token int64) int64 {
	if token < 1 {
		f.refuse(path, "is required: the fencing_token of the grant")
	}
	return token
}

// maxEtagBytes is more than any etag has.
const maxEtagBytes = 64

func (f *fields) etag(path, etag string) string {
	if etag == "" {
		f.refuse(path, "is required: that of the record as it was looked at")
	}
	return f.text(path, etag, maxEtagBytes)
}

func (f *fields) reason(path, reason string) string {
	if strings.TrimSpace(reason) == "" {
		f.refuse(path, "is required: why, in a few words")
	}
	return f.text(path, reason, oncekeeper.MaxReasonBytes)
}

func (f *fields) response(path string, p *pb.StoredResponse, maxBody int64) *oncekeeper.Response {
	if p == nil {
		return &oncekeeper.Response{}
	}
	if int64(len(p.GetBody())) > maxBody {
		f.refuse(path+".body", "has %d bytes; at most %d are taken: settle it as omitted", len(p.GetBody()), maxBody)
	}
	if p.GetOmitted() && len(p.GetBody()) > 0 {
		f.refuse(path+".body", "is set, and the response is said to be omitted")
	}
	f.text(path+".content_type", p.GetContentType(), oncekeeper.MaxContentTypeBytes)
	f.text(path+".resource", p.GetResource(), oncekeeper.MaxResourceBytes)
	f.metadata(path+".metadata", p.GetMetadata())
	if c := p.GetStatusCode(); c != 0 && (c < 100 || c > 999) {
		f.refuse(path+".status_code", "is no HTTP status code")
	}
	return wire.ResponseFromProto(p)
}

func (f *fields) metadata(path string, entries []*pb.MetadataEntry) {
	if len(entries) > oncekeeper.MaxMetadataEntries {
		f.refuse(path, "has %d entries; at most %d are taken", len(entries), oncekeeper.MaxMetadataEntries)
		return
	}
	size := 0
	for i, e := range entries {
		at := fmt.Sprintf("%s[%d]", path, i)
		size += len(e.GetName()) + len(e.GetValue())
		if !isToken(e.GetName()) {
			f.refuse(at+".name", "is not the name of a header: letters, digits and !#$%%&'*+-.^_`|~")
		}
		if k := e.GetKind(); k != pb.MetadataEntry_KIND_HEADER && k != pb.MetadataEntry_KIND_TRAILER {
			f.refuse(at+".kind", "is neither header nor trailer")
		}
	}
	if size > oncekeeper.MaxMetadataBytes {
		f.refuse(path, "has %d bytes; at most %d are taken", size, oncekeeper.MaxMetadataBytes)
	}
}

// isToken: RFC 9110's token, which names a header.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// codeUnknown is google.rpc.Code's UNKNOWN, for a failure that did not say.
const codeUnknown = 2

// status gives a failure's status. Only a final one is an answer, and must say
// what.
func (f *fields) status(path string, p *pb.StoredStatus, final bool, maxDetails int64) *oncekeeper.Status {
	if p == nil {
		if final {
			f.refuse(path, "is required: it is what later callers get")
		}
		return &oncekeeper.Status{Code: codeUnknown}
	}
	if p.GetCode() < 1 || p.GetCode() > 16 {
		f.refuse(path+".code", "is not a code of a failure, 1 to 16")
	}
	if n := len(p.GetMessage()); n > oncekeeper.MaxStatusMessageBytes {
		f.refuse(path+".message", "has %d bytes; at most %d are taken", n, oncekeeper.MaxStatusMessageBytes)
	}
	if n := len(p.GetDetails()); n > oncekeeper.MaxStatusDetails {
		f.refuse(path+".details", "are %d; at most %d are taken", n, oncekeeper.MaxStatusDetails)
	}
	size := 0
	for _, d := range p.GetDetails() {
		size += len(d)
	}
	if int64(size) > maxDetails {
		f.refuse(path+".details", "have %d bytes; at most %d are taken", size, maxDetails)
	}
	return wire.StatusFromProto(p)
}
