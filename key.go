package oncekeeper

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Limits of a key's parts, in bytes. Each part is at least one byte of valid
// UTF-8 with no control characters (Unicode Cc) and no Unicode White_Space at
// either end.
const (
	MaxTenantBytes    = 128
	MaxOperationBytes = 256
	MaxIDBytes        = 255
)

// Key names one logical operation. The parts are compared byte for byte: never
// trimmed, folded, normalised, or joined into one string that another triple
// could also give.
type Key struct {
	// Tenant says whose operation it is: the boundary that authorisation
	// protects. 1 to MaxTenantBytes.
	Tenant string
	// Operation says what is done: a gRPC method as "package.Service/Method", a
	// queue's subscriber, an HTTP route. 1 to MaxOperationBytes.
	Operation string
	// ID says which one: the caller's idempotency key. 1 to MaxIDBytes.
	ID string
}

// Hash names the key in a log without telling it: 12 hexadecimal digits, the same
// in every process.
func (k Key) Hash() string {
	// Quoted, no two triples meet.
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", k.Tenant, k.Operation, k.ID))
	return hex.EncodeToString(sum[:6])
}
