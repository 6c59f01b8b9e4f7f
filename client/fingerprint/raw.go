package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
)

// Raw is the SHA-256 of the bytes and nothing else: what sha256sum prints. For
// bodies that a retry repeats byte for byte.
func Raw(body []byte) Fingerprint {
	sum := sha256.Sum256(body)
	return Fingerprint{Scheme: SchemeRaw, Digest: sum[:]}
}

// Combine digests several parts as one, so that no other list of parts gives the
// same input: SHA-256 over the scheme and then each part, all preceded by their
// length in bytes as 8 bytes, big-endian. The scheme (at most 16 bytes) names
// what the parts are; choose one of your own, not one of this package's.
func Combine(scheme string, parts ...[]byte) Fingerprint {
	hash := sha256.New()
	write := func(part []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		hash.Write(size[:])
		hash.Write(part)
	}
	write([]byte(scheme))
	for _, part := range parts {
		write(part)
	}
	return Fingerprint{Scheme: scheme, Digest: hash.Sum(nil)}
}
