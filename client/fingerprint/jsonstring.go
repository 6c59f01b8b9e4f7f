package fingerprint

import (
	"bytes"
	"cmp"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads a quoted string and gives its characters. The text is known to be
// UTF-8. The answer is a part of text or of unquoted.
func (w *jsonWriter) string() ([]byte, error) {
	w.at++
	start, decodedAt, escaped := w.at, len(w.unquoted), false
	for {
		switch c := w.peek(); {
		case c == '"':
			plain := w.text[start:w.at]
			w.at++
			if !escaped {
				return plain, nil
			}
			w.unquoted = append(w.unquoted, plain...)
			return w.unquoted[decodedAt:], nil
		case c < ' ':
			return nil, w.fault("a string that is not closed, or a bare control character")
		case c == '\\':
			escaped = true
			w.unquoted = append(w.unquoted, w.text[start:w.at]...)
			r, err := w.escape()
			if err != nil {
				return nil, err
			}
			w.unquoted = utf8.AppendRune(w.unquoted, r)
			start = w.at
		default:
			w.at++
		}
	}
}

// escape reads a backslash and what it stands for, a surrogate pair as one.
func (w *jsonWriter) escape() (rune, error) {
	w.at++
	c := w.peek()
	w.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 't':
		return '\t', nil
	case 'n':
		return '\n', nil
	case 'f':
		return '\f', nil
	case 'r':
		return '\r', nil
	case 'u':
	default:
		return 0, w.fault("no such escape")
	}
	r, err := w.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if w.skip(`\u`) {
		low, err := w.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, w.fault("half of a surrogate pair")
}

func (w *jsonWriter) hex4() (rune, error) {
	var r rune
	for range 4 {
		c := w.peek()
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, w.fault("four hexadecimal digits should be here")
		}
		w.at++
	}
	return r, nil
}

// appendJSONString appends s as RFC 8785, 3.2.2.2 writes it.
func appendJSONString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}

// compareUTF16 orders two UTF-8 strings as RFC 8785, 3.2.3 does, by their UTF-16
// code units. That is the order of their bytes but for characters past U+FFFF:
// the surrogates they are written with stand before U+E000.
func compareUTF16(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n == len(a) || n == len(b) {
		return cmp.Compare(len(a), len(b))
	}
	// Past U+FFFF both or neither: bytes decide. 0xEE is where U+E000 begins.
	pastA, pastB := firstByte(a, n) >= 0xf0, firstByte(b, n) >= 0xf0
	switch {
	case pastA && !pastB && firstByte(b, n) >= 0xee:
		return -1
	case pastB && !pastA && firstByte(a, n) >= 0xee:
		return 1
	}
	return bytes.Compare(a[n:], b[n:])
}

// firstByte is the byte that begins the character which byte n is in.
func firstByte(s []byte, n int) byte {
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[n]
}
