package headerkey

import (
	"errors"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

func TestAFieldNamesOneKeyOrIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		values []string
		key    string
		err    error
	}{
		"absent":                         {nil, "", nil},
		"quoted":                         {[]string{`"8e03978e-40d5-43e8-bc93-6894a57f9324"`}, "8e03978e-40d5-43e8-bc93-6894a57f9324", nil},
		"bare":                           {[]string{`8e03978e-40d5-43e8-bc93-6894a57f9324`}, "8e03978e-40d5-43e8-bc93-6894a57f9324", nil},
		"a token":                        {[]string{"order-17"}, "order-17", nil},
		"a number":                       {[]string{"42"}, "42", nil},
		"base64 without colons":          {[]string{"a+b/c=="}, "a+b/c==", nil},
		"quoted, with spaces in it":      {[]string{`"order 17, again; now"`}, "order 17, again; now", nil},
		"spaces around it":               {[]string{" \t\"k\" "}, "k", nil},
		"spaces at the ends within":      {[]string{`" k "`}, " k ", nil}, // the service refuses it
		"an escaped quote":               {[]string{`"a\"b"`}, `a"b`, nil},
		"an escaped backslash":           {[]string{`"a\\b"`}, `a\b`, nil},
		"a long one":                     {[]string{strings.Repeat("k", 8192)}, strings.Repeat("k", 8192), nil}, // likewise
		"empty":                          {[]string{""}, "", ErrEmpty},
		"white space only":               {[]string{" \t "}, "", ErrEmpty},
		"empty in quotes":                {[]string{`""`}, "", ErrEmpty},
		"sent twice":                     {[]string{"a", "b"}, "", ErrTwice},
		"sent twice, alike":              {[]string{"k", "k"}, "", ErrTwice},
		"a list of quoted keys":          {[]string{`"a", "b"`}, "", ErrMore},
		"a list of bare keys":            {[]string{"a, b"}, "", ErrBare},
		"a list without spaces":          {[]string{"a,b"}, "", ErrBare},
		"a parameter":                    {[]string{`"k";v=1`}, "", ErrMore},
		"a parameter of a bare key":      {[]string{"k;v=1"}, "", ErrBare},
		"more behind the quote":          {[]string{`"k"k`}, "", ErrMore},
		"no closing quote":               {[]string{`"k`}, "", ErrUnclosed},
		"one quote":                      {[]string{`"`}, "", ErrUnclosed},
		"an escape at the end":           {[]string{`"k\`}, "", ErrUnclosed},
		"an escaped closing quote":       {[]string{`"k\"`}, "", ErrUnclosed},
		"an unknown escape":              {[]string{`"a\nb"`}, "", ErrEscape},
		"a quote inside a bare key":      {[]string{`k"k"`}, "", ErrBare},
		"a backslash in a bare key":      {[]string{`a\b`}, "", ErrBare},
		"two words":                      {[]string{"a b"}, "", ErrBare},
		"a boolean":                      {[]string{"?1"}, "", ErrBare},
		"a byte sequence":                {[]string{":aGVsbG8=:"}, "", ErrBare},
		"an inner list":                  {[]string{`("a" "b")`}, "", ErrBare},
		"a date":                         {[]string{"@1659578233"}, "", ErrBare},
		"a display string":               {[]string{`%"caf%c3%a9"`}, "", ErrBare},
		"letters outside ASCII":          {[]string{`"café"`}, "", ErrCharacter},
		"letters outside ASCII, bare":    {[]string{"café"}, "", ErrCharacter},
		"bytes that are no UTF-8":        {[]string{"\"\xff\""}, "", ErrCharacter},
		"a control character":            {[]string{"\"a\x00b\""}, "", ErrCharacter},
		"a tab in quotes":                {[]string{"\"a\tb\""}, "", ErrCharacter},
		"a newline that would be folded": {[]string{"\"a\r\nb\""}, "", ErrCharacter},
	} {
		key, ok, err := Parse(c.values)
		if key != c.key || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || ok != (c.values != nil) {
			t.Errorf("%s: Parse(%q) = %q, %t, %v; want %q, %v", name, c.values, key, ok, err, c.key, c.err)
		}
	}
}

func TestAKeyIsWrittenAsAQuotedString(t *testing.T) {
	for name, c := range map[string]struct {
		key, value string
		err        error
	}{
		"a word":           {"k", `"k"`, nil},
		"a quote":          {`a"b`, `"a\"b"`, nil},
		"a backslash":      {`a\b`, `"a\\b"`, nil},
		"nothing":          {"", "", ErrEmpty},
		"outside ASCII":    {"café", "", ErrCharacter},
		"a header's end":   {"k\r\nX: y", "", ErrCharacter},
		"a comma and more": {"a, b;c=1", `"a, b;c=1"`, nil},
	} {
		if value, err := Format(c.key); value != c.value || !errors.Is(err, c.err) {
			t.Errorf("%s: Format(%q) = %q, %v; want %q, %v", name, c.key, value, err, c.value, c.err)
		}
	}
}

// FuzzParse holds every field to this: it is refused, or names a key of printable
// ASCII which is the same key when it is written in quotes.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", " ", `"`, `""`, "k", `"k"`, `"a\"b"`, `"a\\"`, `"a\`, `"a", "b"`, "a,b", "?1", ":YQ==:", "(a)", "@1", `%"a"`, "caf\u00e9", "\"\xff\"", "42", "a b", `"k";v`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, ok, err := Parse([]string{value})
		if !ok {
			t.Fatalf("Parse(%q) says that there is no field", value)
		}
		if err != nil {
			if key != "" {
				t.Fatalf("Parse(%q) gives %q beside %v", value, key, err)
			}
			return
		}
		written, err := Format(key)
		if err != nil || key == "" {
			t.Fatalf("Parse(%q) = %q, which cannot be written: %v", value, key, err)
		}
		if again, _, err := Parse([]string{written}); again != key || err != nil {
			t.Fatalf("Parse(%q) = %q, and written as %q it is %q, %v", value, key, written, again, err)
		}
	})
}

// FuzzParseReadsWhatAStructuredFieldSays has another's parser of RFC 9651 for a
// judge: a String is a key, a Token and a number are the key of the same
// characters, and nothing else that it reads is any.
func FuzzParseReadsWhatAStructuredFieldSays(f *testing.F) {
	for _, seed := range []string{
		`"k"`, `"a\"b"`, `"a\\"`, `"k";v=1`, `"a", "b"`, "k", "a/b:c", "42", "-1.5", "?1", ":YQ==:", "(a b)", "@1", `%"caf%c3%a9"`, " \"k\" ", "\tk", "1e5", "8e03978e-40d5",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, _, err := Parse([]string{value})
		item, fault := httpsfv.UnmarshalItem([]string{strings.Trim(value, "\t")})
		trimmed := strings.Trim(value, " \t")
		if fault != nil {
			if err == nil && trimmed[0] == '"' {
				t.Fatalf("Parse(%q) = %q, which is no structured field: %v", value, key, fault)
			}
			return
		}
		want := ""
		if len(item.Params.Names()) == 0 {
			switch v := item.Value.(type) {
			case string:
				want = v
			case httpsfv.Token, int64, float64:
				want = trimmed
			}
		}
		if key != want || (err == nil) != (want != "") {
			t.Fatalf("Parse(%q) = %q, %v; as a structured field it is %#v, so want %q", value, key, err, item, want)
		}
	})
}
