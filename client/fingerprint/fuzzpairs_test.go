package fingerprint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// FuzzJSONDigestsAreEqualExactlyWhenTheDocumentsAre writes the document anew, with
// members, white space, escapes and numbers in other spellings, and changes one
// value in it. What equal is encoding/json and math/big say.
func FuzzJSONDigestsAreEqualExactlyWhenTheDocumentsAre(f *testing.F) {
	for i, c := range readVectors(f).JCS1 {
		for _, text := range c.Text {
			f.Add([]byte(text), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		fingerprint, err := JSON(text)
		if err != nil {
			return
		}
		respelt := speller{rand.New(rand.NewPCG(seed, 0))}
		value := numbered(t, text)
		twin := respelt.write(value)
		if got, err := JSON([]byte(twin)); err != nil || !got.Equal(fingerprint) {
			t.Fatalf("equal, and told apart (%v):\n%q\n%q", err, text, twin)
		}
		respelt.change(&value)
		other := respelt.write(value)
		got, err := JSON([]byte(other))
		if err != nil {
			t.Fatalf("%q: %v", other, err)
		}
		if want := equalJSON(value, numbered(t, text)); got.Equal(fingerprint) != want {
			t.Fatalf("equal digests: %t, want %t\n%q\n%q", !want, want, text, other)
		}
	})
}

// numbered is the document as encoding/json has it, its numbers as they are
// written.
func numbered(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && valueOf(string(a)) == valueOf(string(b))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	default:
		return a == b
	}
}

// valueOf is a number as its digits, none of them a zero at either end, and the
// power of ten that they stand for: the same for equal values alone.
func valueOf(number string) string {
	digits, power, _ := strings.Cut(strings.ToLower(number), "e")
	exponent := new(big.Int)
	if power != "" {
		exponent.SetString(strings.TrimPrefix(power, "+"), 10)
	}
	sign := ""
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	trimmed := strings.TrimRight(digits, "0")
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(trimmed))))
	return sign + trimmed + "e" + exponent.String()
}

// speller writes JSON in one of its many spellings.
type speller struct{ *rand.Rand }

func (s speller) space() string { return []string{"", "", " ", "\n\t", "\r"}[s.IntN(5)] }

func (s speller) write(v any) string {
	var inner string
	switch v := v.(type) {
	case json.Number:
		inner = s.number(string(v))
	case string:
		inner = s.quote(v)
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, s.write(e))
		}
		inner = "[" + s.space() + strings.Join(parts, ",") + "]"
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		s.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var parts []string
		for _, name := range names {
			parts = append(parts, s.space()+s.quote(name)+s.space()+":"+s.write(v[name]))
		}
		inner = "{" + s.space() + strings.Join(parts, ",") + "}"
	default:
		inner = map[any]string{nil: "null", true: "true", false: "false"}[v]
	}
	return s.space() + inner + s.space()
}

// number moves the exponent, or adds what changes no value.
func (s speller) number(n string) string {
	digits, exponent, there := strings.Cut(strings.ToLower(n), "e")
	switch {
	case s.IntN(2) == 0:
		return n
	case !there && strings.Contains(digits, "."):
		return digits + "000E+0"
	case !there:
		return digits + ".0e-00"
	case strings.Contains(digits, "."):
		return digits + "0E" + exponent
	default:
		return digits + ".00e" + exponent
	}
}

func (s speller) quote(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r < ' ' || r == '"' || r == '\\' || r < 0x10000 && s.IntN(3) == 0:
			fmt.Fprintf(&out, []string{`\u%04x`, `\u%04X`}[s.IntN(2)], r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// change changes one value somewhere in v; now and then to the same again.
func (s speller) change(v *any) {
	switch inner := (*v).(type) {
	case []any:
		switch {
		case len(inner) > 1 && s.IntN(3) == 0:
			i, j := s.IntN(len(inner)), s.IntN(len(inner))
			inner[i], inner[j] = inner[j], inner[i]
		case len(inner) > 0 && s.IntN(3) > 0:
			s.change(&inner[s.IntN(len(inner))])
		default:
			*v = append(inner, s.other())
		}
	case map[string]any:
		names := slices.Sorted(maps.Keys(inner))
		if len(names) == 0 || s.IntN(4) == 0 {
			inner[[]string{"", "a", "\u00e9", "e\u0301"}[s.IntN(4)]] = s.other()
			return
		}
		name := names[s.IntN(len(names))]
		value := inner[name]
		s.change(&value)
		inner[name] = value
	case json.Number:
		*v = json.Number(s.neighbour(string(inner)))
	case string:
		*v = inner + []string{"", " ", "\u0301", "\x00"}[s.IntN(4)]
	default:
		*v = s.other()
	}
}

func (s speller) neighbour(n string) string {
	digits, exponent, there := strings.Cut(n, "e")
	if there {
		exponent = "e" + exponent
	}
	if !strings.Contains(n, "E") && s.IntN(2) == 0 {
		if !strings.Contains(digits, ".") {
			digits += "."
		}
		return digits + []string{"0", "00", "1", "000000000000000000000001"}[s.IntN(4)] + exponent
	}
	if rest, negative := strings.CutPrefix(n, "-"); negative {
		return rest
	}
	return "-" + n
}

func (s speller) other() any {
	return []any{nil, true, false, "", "0", json.Number("0"), json.Number("-0"), json.Number("9007199254740993"), []any{}, map[string]any{}}[s.IntN(10)]
}
