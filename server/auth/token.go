package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// tokenPrefix tells, to people and to what looks for secrets in the wrong place,
// whose token it is.
const tokenPrefix = "ok_"

// NewToken gives a bearer token of 256 random bits.
func NewToken() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
}

// TokenDigest is how a principals file has a token. Nobody finds the token by it, as
// long as the token is as random as NewToken's.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
