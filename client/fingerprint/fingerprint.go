package fingerprint

import (
	"bytes"
	"encoding/hex"
	"errors"
)

// The names of the schemes, as a Begin's fingerprint_scheme says them.
const (
	SchemeProto = "pb1"
	SchemeJSON  = "jcs1"
	SchemeRaw   = "raw"
)

// MaxDepth is how deep a request may nest, its outermost message, object or
// array being 1. It is what protobuf parsers outside Go allow by default. Part
// of pb1 and jcs1: deeper gives [ErrTooDeep] in every language.
const MaxDepth = 100

var (
	// ErrTooDeep: nested past MaxDepth.
	ErrTooDeep = errors.New("fingerprint: nested too deeply")
	// ErrPath: an ignore path that the message type does not have.
	ErrPath = errors.New("fingerprint: no such field to ignore")
	// ErrMessage: no message, one of another type than the digester's, or one whose
	// unknown fields are not protobuf.
	ErrMessage = errors.New("fingerprint: not a message that can be digested")
	// ErrJSON: not JSON, or JSON that readers disagree about (a name twice in one
	// object, a lone surrogate, invalid UTF-8, an exponent past 999,999,999). The
	// text names the offset and never the content.
	ErrJSON = errors.New("fingerprint: not unambiguous JSON")
)

// Fingerprint is a digest and how it was made. Only fingerprints of one scheme
// can be compared.
type Fingerprint struct {
	// Scheme has 0 to 16 bytes in the service's contract.
	Scheme string
	// Digest is a SHA-256, 32 bytes, when made by this package. The service takes 0
	// to 64 bytes.
	Digest []byte
}

// Equal says whether both scheme and digest are the same.
func (f Fingerprint) Equal(other Fingerprint) bool {
	return f.Scheme == other.Scheme && bytes.Equal(f.Digest, other.Digest)
}

// String is "scheme:hexadecimal", for logs.
func (f Fingerprint) String() string {
	return f.Scheme + ":" + hex.EncodeToString(f.Digest)
}
