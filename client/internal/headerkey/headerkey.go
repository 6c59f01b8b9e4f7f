// Package headerkey reads and writes the Idempotency-Key header field of HTTP
// (draft-ietf-httpapi-idempotency-key-header-07, "Syntax").
//
// It owns the spelling. Whether a key is within the limits of one is judged by
// the service, once.
package headerkey

import (
	"errors"
	"strings"
)

// Name is the header field.
const Name = "Idempotency-Key"

// What is wrong with a field. No error holds any of its value.
var (
	ErrTwice = errors.New("is sent more than once")
	ErrEmpty = errors.New("is empty")
	// ErrUnclosed: a quoted key that does not end.
	ErrUnclosed = errors.New("begins with a quote and does not end with one")
	// ErrEscape: a backslash before anything but a quote or a backslash.
	ErrEscape = errors.New("has a backslash before something else than a quote or a backslash")
	// ErrMore: something behind the closing quote: a parameter, or a second key.
	ErrMore = errors.New("has more behind its key: it is one key, with no parameters and in no list")
	// ErrCharacter: what a string of a structured field cannot hold.
	ErrCharacter = errors.New("has a character that is not printable ASCII")
	// ErrBare: a key without quotes that holds what only a quoted one may.
	ErrBare = errors.New(`is neither a quoted string nor one word: write "…" around the key`)
)

// Parse gives the key that the values of the field name; ok is false where there
// are none. Spaces and tabs around the value are not of it.
//
// The draft's key is a String of a structured field (RFC 8941, section 3.3.3, the
// same in RFC 9651): in quotes, printable ASCII, a quote or backslash escaped by a
// backslash. A key without quotes is not of the draft, and much sent: it is taken
// where it is one word that no structured field reads as anything but a token or
// a number, and is then the key that the same characters in quotes are.
func Parse(values []string) (key string, ok bool, err error) {
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, ErrTwice
	}
	value := strings.Trim(values[0], " \t")
	switch {
	case value == "":
		return "", true, ErrEmpty
	case value[0] == '"':
		key, err = quoted(value[1:])
	default:
		key, err = value, bare(value)
	}
	if err != nil {
		return "", true, err
	}
	return key, true, nil
}

// quoted reads a string behind its opening quote.
func quoted(rest string) (string, error) {
	var key strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			if i+1 < len(rest) {
				return "", ErrMore
			}
			if key.Len() == 0 {
				return "", ErrEmpty
			}
			return key.String(), nil
		case c == '\\':
			i++
			if i == len(rest) {
				return "", ErrUnclosed
			}
			if rest[i] != '"' && rest[i] != '\\' {
				return "", ErrEscape
			}
			key.WriteByte(rest[i])
		case !printable(c):
			return "", ErrCharacter
		default:
			key.WriteByte(c)
		}
	}
	return "", ErrUnclosed
}

// bare says what keeps value from being a key without quotes: a second item or a
// parameter, or how an inner list, a byte sequence, a boolean or a date begins.
func bare(value string) error {
	for i := range len(value) {
		switch c := value[i]; {
		case !printable(c):
			return ErrCharacter
		case strings.IndexByte(` ",;\()`, c) >= 0:
			return ErrBare
		case i == 0 && strings.IndexByte(":?@", c) >= 0:
			return ErrBare
		}
	}
	return nil
}

// Format gives key as the field's value, in quotes, or ErrEmpty or ErrCharacter
// where the field cannot carry it.
func Format(key string) (string, error) {
	if key == "" {
		return "", ErrEmpty
	}
	value := make([]byte, 0, len(key)+2)
	value = append(value, '"')
	for i := range len(key) {
		c := key[i]
		if !printable(c) {
			return "", ErrCharacter
		}
		if c == '"' || c == '\\' {
			value = append(value, '\\')
		}
		value = append(value, c)
	}
	return string(append(value, '"')), nil
}

func printable(c byte) bool { return c >= ' ' && c <= '~' }
