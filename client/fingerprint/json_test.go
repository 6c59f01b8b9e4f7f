package fingerprint

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func canonicalJSON(text string) (string, error) {
	canonical, err := new(jsonWriter).document([]byte(text))
	return string(canonical), err
}

func TestNamesSortAsTheirUTF16Does(t *testing.T) {
	letters := []rune{'a', 'b', 0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xfb33, 0xffff, 0x10000, 0x10001, 0x1f600, 0x10ffff}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.SampledFrom(letters), 0, 4).Draw(t, "a")
		b := rapid.SliceOfN(rapid.SampledFrom(letters), 0, 4).Draw(t, "b")
		want := slices.Compare(utf16.Encode(a), utf16.Encode(b))
		if got := compareUTF16([]byte(string(a)), []byte(string(b))); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestSpaceOrderAndEscapesDoNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := randomJSON(t, 0)
		a, b := value.text(t), value.text(t)
		fa, errA := JSON([]byte(a))
		fb, errB := JSON([]byte(b))
		if errA != nil || errB != nil || !fa.Equal(fb) {
			t.Fatalf("%s, %v and %s, %v of\n%s\n%s", fa, errA, fb, errB, a, b)
		}
		canonical, err := canonicalJSON(a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := canonicalJSON(canonical); err != nil || again != canonical {
			t.Fatalf("canonical of canonical\n got %s, %v\nwant %s", again, err, canonical)
		}
	})
}

func TestARefusedTextLeavesNothingForTheNext(t *testing.T) {
	want, err := JSON([]byte(`{"a":[{"b":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := JSON([]byte(`{"z":{"y":1,"x":"\n`)); !errors.Is(err, ErrJSON) {
			t.Fatalf("got %v, want ErrJSON", err)
		}
		if got, err := JSON([]byte(`{"a":[{"b":1}]}`)); err != nil || !got.Equal(want) {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestAJSONWriterGivenBackHoldsNothingOfTheText(t *testing.T) {
	w := new(jsonWriter)
	if _, err := w.document([]byte(`{"a":{"b":1,"c":2,`)); !errors.Is(err, ErrJSON) {
		t.Fatalf("got %v, want ErrJSON", err)
	}
	w.free()
	for _, member := range w.members[:cap(w.members)] {
		if member.name != nil {
			t.Errorf("the name %s is kept", member.name)
		}
	}
	if len(w.members) > 0 || w.text != nil {
		t.Error("not empty")
	}
}

func TestAFaultSaysWhereAndNotWhat(t *testing.T) {
	for text, offset := range map[string]string{
		`{"card":4111x}`:                   "offset 12",
		`{"card":4111} 4111`:               "offset 14",
		`{"card":"4111","card":"4111"}`:    "offset 29",
		`{"card":"4111\q"}`:                "offset 15",
		`{"card":4111e4111411141114111111`: "offset 32",
	} {
		_, err := JSON([]byte(text))
		if !errors.Is(err, ErrJSON) || !strings.Contains(err.Error(), offset) || strings.Contains(err.Error(), "4111") {
			t.Errorf("%s: got %v, want ErrJSON at %s", text, err, offset)
		}
	}
}

func TestNestingOfJSONPastAnyStackIsAnError(t *testing.T) {
	for _, open := range []string{"[", `{"a":`, `[{"a":`} {
		if _, err := JSON([]byte(strings.Repeat(open, 1_000_000))); !errors.Is(err, ErrTooDeep) {
			t.Errorf("%s: got %v, want ErrTooDeep", open, err)
		}
	}
}

func TestTheTextIsNotChanged(t *testing.T) {
	text := []byte(`{"b":"\u0041","a":1.50}`)
	before := bytes.Clone(text)
	if _, err := JSON(text); err != nil || !bytes.Equal(text, before) {
		t.Errorf("now %s, %v", text, err)
	}
}

// jsonTree is a JSON value that can be written in many ways.
type jsonTree struct {
	scalar  string
	str     []rune
	array   []jsonTree
	members map[string]jsonTree
	kind    int
}

func randomJSON(t *rapid.T, depth int) jsonTree {
	letters := rapid.SampledFrom([]rune("aé/\"\\\n\x00\x1f\u2028\uffff😀"))
	v := jsonTree{kind: rapid.IntRange(0, 3).Draw(t, "kind")}
	if depth > 3 {
		v.kind %= 2
	}
	switch v.kind {
	case 0:
		v.scalar = rapid.SampledFrom([]string{"null", "true", "false", "0", "-1", "1.25", "9007199254740993", "1e+21", "1e-7"}).Draw(t, "scalar")
	case 1:
		v.str = rapid.SliceOfN(letters, 0, 5).Draw(t, "string")
	case 2:
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			v.array = append(v.array, randomJSON(t, depth+1))
		}
	case 3:
		v.members = map[string]jsonTree{}
		for range rapid.IntRange(0, 4).Draw(t, "size") {
			v.members[string(rapid.SliceOfN(letters, 0, 2).Draw(t, "name"))] = randomJSON(t, depth+1)
		}
	}
	return v
}

// text writes the value with members, white space and escapes drawn anew.
func (v jsonTree) text(t *rapid.T) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r"}).Draw(t, "space") }
	var parts []string
	switch v.kind {
	case 0:
		return space() + v.scalar + space()
	case 1:
		return space() + quote(t, v.str) + space()
	case 2:
		for _, element := range v.array {
			parts = append(parts, element.text(t))
		}
		return space() + "[" + space() + strings.Join(parts, ",") + "]" + space()
	}
	names := make([]string, 0, len(v.members))
	for name := range v.members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range rapid.Permutation(names).Draw(t, "order") {
		parts = append(parts, space()+quote(t, []rune(name))+space()+":"+v.members[name].text(t))
	}
	return space() + "{" + space() + strings.Join(parts, ",") + "}" + space()
}

func quote(t *rapid.T, s []rune) string {
	const upper, lower = "0123456789ABCDEF", "0123456789abcdef"
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\n': `\n`}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		way := rapid.IntRange(0, 3).Draw(t, "escape")
		mustEscape := r < ' ' || r == '"' || r == '\\'
		switch {
		case way == 0 && !mustEscape:
			out.WriteRune(r)
		case way == 1 && short[r] != "":
			out.WriteString(short[r])
		default:
			digits := lower
			if way == 2 {
				digits = upper
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				out.WriteString(`\u`)
				for shift := 12; shift >= 0; shift -= 4 {
					out.WriteByte(digits[unit>>shift&15])
				}
			}
		}
	}
	out.WriteByte('"')
	return out.String()
}
