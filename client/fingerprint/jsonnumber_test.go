package fingerprint

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The doubles of RFC 8785, appendix B, and what they are written as.
var appendixB = map[uint64]string{
	0x0000000000000000: "0",
	0x8000000000000000: "0",
	0x0000000000000001: "5e-324",
	0x8000000000000001: "-5e-324",
	0x7fefffffffffffff: "1.7976931348623157e+308",
	0xffefffffffffffff: "-1.7976931348623157e+308",
	0x4340000000000000: "9007199254740992",
	0xc340000000000000: "-9007199254740992",
	0x4430000000000000: "295147905179352830000",
	0x44b52d02c7e14af5: "9.999999999999997e+22",
	0x44b52d02c7e14af6: "1e+23",
	0x44b52d02c7e14af7: "1.0000000000000001e+23",
	0x444b1ae4d6e2ef4e: "999999999999999700000",
	0x444b1ae4d6e2ef4f: "999999999999999900000",
	0x444b1ae4d6e2ef50: "1e+21",
	0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
	0x3eb0c6f7a0b5ed8d: "0.000001",
	0x41b3de4355555553: "333333333.3333332",
	0x41b3de4355555554: "333333333.33333325",
	0x41b3de4355555555: "333333333.3333333",
	0x41b3de4355555556: "333333333.3333334",
	0x41b3de4355555557: "333333333.33333343",
	0xbecbf647612f3696: "-0.0000033333333333333333",
	0x43143ff3c1cb0959: "1424953923781206.2",
}

func TestADoubleIsWrittenAsTheRFCWritesIt(t *testing.T) {
	for bits, want := range appendixB {
		// The shortest decimal of the double, in a layout that is not the RFC's.
		literal := strconv.FormatFloat(math.Float64frombits(bits), 'E', -1, 64)
		if got, err := canonicalJSON(literal); err != nil || got != want {
			t.Errorf("%016x, %s: got %s, %v, want %s", bits, literal, got, err, want)
		}
	}
}

func TestAnyDoubleIsWrittenAsECMAScriptWritesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			t.Skip("no JSON number, or one with a test of its own")
		}
		// encoding/json writes doubles by ECMAScript's rules.
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []byte{'e', 'f', 'E'} {
			literal := strconv.FormatFloat(f, format, -1, 64)
			if got, err := canonicalJSON(literal); err != nil || got != string(want) {
				t.Fatalf("%s: got %s, %v, want %s", literal, got, err, want)
			}
		}
	})
}

func TestNumbersAreWrittenAlikeExactlyWhenTheirValuesAreEqual(t *testing.T) {
	literal := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringMatching(`-?(0|[1-9]0{0,22}[0-9]?)(\.0{0,9}[0-9]?0)?([eE][+-]?0?[0-9]{1,2})?`).Draw(t, "literal")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := literal.Draw(t, "a"), literal.Draw(t, "b")
		valueA, okA := new(big.Rat).SetString(a)
		valueB, okB := new(big.Rat).SetString(b)
		canonicalA, errA := canonicalJSON(a)
		canonicalB, errB := canonicalJSON(b)
		if !okA || !okB || errA != nil || errB != nil {
			t.Fatalf("%s: %v, %s: %v", a, errA, b, errB)
		}
		if kept, ok := new(big.Rat).SetString(canonicalA); !ok || kept.Cmp(valueA) != 0 {
			t.Fatalf("%s was written as %s, another value", a, canonicalA)
		}
		if equal := valueA.Cmp(valueB) == 0; equal != (canonicalA == canonicalB) {
			t.Fatalf("%s is %s, %s is %s; equal: %v", a, canonicalA, b, canonicalB, equal)
		}
	})
}

func TestAnExponentCostsNothing(t *testing.T) {
	for literal, want := range map[string]string{
		"1e999999999":             "1e+999999999",
		"-12.50E-999999999":       "-1.25e-999999998",
		"0e999999999":             "0",
		"1e0000000000000000021":   "1e+21",
		"1000000000000e999999987": "1e+999999999",
	} {
		text := []byte(literal)
		w := new(jsonWriter)
		if got, err := w.document(text); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", literal, got, err, want)
		}
		if n := testing.AllocsPerRun(10, func() { _, _ = w.document(text) }); n > 0 {
			t.Errorf("%s: %v allocations, want 0", literal, n)
		}
		if size := cap(w.out) + cap(w.digits); size > 256 {
			t.Errorf("%s: %d bytes of buffers", literal, size)
		}
	}
}

func TestALongNumberKeepsEveryDigit(t *testing.T) {
	digits := strings.Repeat("1234567890", 20_000)
	want := fmt.Sprintf("%c.%se+%d", digits[0], digits[1:len(digits)-1], len(digits)-1)
	if got, err := canonicalJSON(digits); err != nil || got != want {
		t.Errorf("%d digits: got %d bytes, %v, want %d", len(digits), len(got), err, len(want))
	}
}
