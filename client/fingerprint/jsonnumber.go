package fingerprint

import (
	"bytes"
	"strconv"
)

// maxExponent bounds, both ways, the exponent in the text and that of the value in
// scientific notation, so that no arithmetic here overflows in any language and a
// canonical number is one that is accepted.
const maxExponent = 999_999_999

// number reads a number and appends its value in the layout of ECMAScript's
// Number::toString (ECMA-262; RFC 8785, 3.2.2.3), from its decimal digits: no
// double comes between. A number that a double prints as comes out as RFC 8785
// has it, and any other keeps all its digits. The work is by the length of the
// text, never by its exponent.
func (w *jsonWriter) number() error {
	negative := w.skip("-")
	whole := w.digitRun()
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return w.fault("a number begins with one 0, or with another digit")
	}
	var fraction []byte
	if w.skip(".") {
		if fraction = w.digitRun(); len(fraction) == 0 {
			return w.fault("digits should follow the point")
		}
	}
	exponent := 0
	if w.skip("e") || w.skip("E") {
		var err error
		if exponent, err = w.exponent(); err != nil {
			return err
		}
	}

	// The value is 0.digits * 10^point, digits with no zero at either end.
	point := len(whole) + exponent
	w.digits = append(append(w.digits[:0], whole...), fraction...)
	digits := bytes.TrimLeft(w.digits, "0")
	point -= len(w.digits) - len(digits)
	digits = bytes.TrimRight(digits, "0")
	if len(digits) == 0 {
		w.out = append(w.out, '0') // Minus zero too.
		return nil
	}
	if scientific := point - 1; scientific > maxExponent || scientific < -maxExponent {
		return w.fault("a number with an exponent past 999999999")
	}
	if negative {
		w.out = append(w.out, '-')
	}
	w.out = appendDecimal(w.out, digits, point)
	return nil
}

func (w *jsonWriter) digitRun() []byte {
	start := w.at
	for isDigit(w.peek()) {
		w.at++
	}
	return w.text[start:w.at]
}

func (w *jsonWriter) exponent() (int, error) {
	negative := w.skip("-")
	if !negative {
		w.skip("+")
	}
	run := w.digitRun()
	if len(run) == 0 {
		return 0, w.fault("digits should follow the e")
	}
	exponent := 0
	for _, c := range run {
		if exponent = 10*exponent + int(c-'0'); exponent > maxExponent {
			return 0, w.fault("an exponent past 999999999")
		}
	}
	if negative {
		return -exponent, nil
	}
	return exponent, nil
}

// appendDecimal appends 0.digits * 10^point: plain from 1e-6 up to but not
// including 1e21, else with an exponent.
func appendDecimal(dst, digits []byte, point int) []byte {
	k := len(digits)
	switch {
	case k <= point && point <= 21:
		return appendZeros(append(dst, digits...), point-k)
	case 0 < point && point <= 21:
		dst = append(append(dst, digits[:point]...), '.')
		return append(dst, digits[point:]...)
	case -6 < point && point <= 0:
		dst = appendZeros(append(dst, "0."...), -point)
		return append(dst, digits...)
	}
	dst = append(dst, digits[0])
	if k > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	dst = append(dst, 'e')
	if point > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(point)-1, 10)
}

// appendZeros appends at most 21 zeros.
func appendZeros(dst []byte, n int) []byte {
	return append(dst, "000000000000000000000"[:n]...)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
