package server

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/oncekeeper/oncekeeper"
)

// keyHash stands for a key in the log, where the key itself may be somebody's
// secret: 16 hexadecimal digits, the same for the same key on every server. Each
// part is hashed behind its length, so no two triples meet.
func keyHash(k oncekeeper.Key) string {
	h := sha256.New()
	for _, part := range []string{k.Tenant, k.Operation, k.ID} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
