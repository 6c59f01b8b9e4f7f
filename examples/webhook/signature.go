package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A delivery is signed as Standard Webhooks has it: its id, the time of this try
// and the body, joined by dots, by HMAC-SHA256. Services that sign in another way
// differ in names and in what is joined; what is checked here is to be checked there.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	signatureScheme = "v1,"
	secretPrefix    = "whsec_"
)

// maxSignatures in one header: there is more than one while a secret is replaced.
const maxSignatures = 8

// errForged is all that the sender is told: what helps to find a fault helps to
// forge. The log has the rest.
var errForged = errors.New("not a delivery that can be trusted")

// verifier knows who may deliver.
type verifier struct {
	// secrets that are taken: two while one is replaced by the other.
	secrets [][]byte
	// tolerance is how old a try may be, or how far ahead, so that one that somebody
	// recorded is soon of no use. Until then its id tells.
	tolerance time.Duration
	now       func() time.Time
}

func parseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) < 24 {
		return nil, fmt.Errorf("a secret is %s and at least 24 bytes in base64", secretPrefix)
	}
	return secret, nil
}

// verify gives the id of a delivery; or errForged, and why.
func (v verifier) verify(header http.Header, body []byte) (id string, err error) {
	if id, err = only(header, headerID); err != nil {
		return "", err
	}
	timestamp, err := only(header, headerTimestamp)
	if err != nil {
		return "", err
	}
	signatures, err := only(header, headerSignature)
	if err != nil {
		return "", err
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	switch {
	case strings.Contains(id, "."):
		// With a dot in it, what is signed could be cut in two ways.
		return "", fmt.Errorf("%w: a dot in the id", errForged)
	case err != nil || strconv.FormatInt(seconds, 10) != timestamp:
		return "", fmt.Errorf("%w: a timestamp that is no number of seconds", errForged)
	case !v.signed(id, timestamp, body, strings.Fields(signatures)):
		return "", fmt.Errorf("%w: no signature fits", errForged)
	}
	if age := v.now().Sub(time.Unix(seconds, 0)); age > v.tolerance || age < -v.tolerance {
		return "", fmt.Errorf("%w: it is %v old", errForged, age)
	}
	return id, nil
}

// signed says whether a signature is that of one of the secrets. How long that takes
// does not depend on how much of a signature is right.
func (v verifier) signed(id, timestamp string, body []byte, signatures []string) bool {
	if len(signatures) > maxSignatures {
		return false
	}
	fits := false
	for _, secret := range v.secrets {
		want := []byte(signature(secret, id, timestamp, body))
		for _, got := range signatures {
			fits = hmac.Equal(want, []byte(got)) || fits
		}
	}
	return fits
}

func signature(secret []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return signatureScheme + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// only gives the one value of a header: of two, someone may check the one and use
// the other.
func only(header http.Header, name string) (string, error) {
	values := header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", fmt.Errorf("%w: %s is there %d times", errForged, name, len(values))
	}
	return values[0], nil
}
