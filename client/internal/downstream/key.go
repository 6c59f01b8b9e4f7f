// Package downstream makes the keys of calls that are made inside an attempt, so
// that the attempt after it, which makes them again, makes them with the same keys.
//
// It owns how such a key is made, and what of an attempt must be remembered for it:
// which calls are under way, and how many equal ones ended before. What a call is,
// and whether its outcome is known, its callers say.
package downstream

import (
	"encoding/hex"
	"strconv"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// scheme names how keys are made: it begins every key, and what is digested. A
// published scheme never changes.
const scheme = "ok1"

// keyBytes of the digest make the key: 160 bits, in 44 characters with the scheme,
// since some payment services take no more than 45.
const keyBytes = 20

// NamedKey is the key of the step that was named, of a call of method; the method
// is empty for what Oncekeeper does not send itself.
func NamedKey(parent oncekeeper.Key, method, step string) string {
	return key(parent, method, []byte("step"), []byte(step))
}

// CountedKey is the key of the n-th of equal calls that name no step, from 1.
func CountedKey(parent oncekeeper.Key, method string, request fingerprint.Fingerprint, n int) string {
	return key(parent, method, []byte("call"), []byte(request.Scheme), request.Digest, []byte(strconv.Itoa(n)))
}

func key(parent oncekeeper.Key, method string, which ...[]byte) string {
	parts := append([][]byte{[]byte(parent.Tenant), []byte(parent.Operation), []byte(parent.ID), []byte(method)}, which...)
	return scheme + "-" + hex.EncodeToString(fingerprint.Combine(scheme, parts...).Digest[:keyBytes])
}
