package fingerprint

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"google.golang.org/protobuf/types/dynamicpb"
)

var update = flag.Bool("update", false,
	"write what the code gives into testdata/vectors.json: only for vectors that are new, since a published digest never changes")

const vectorFile = "testdata/vectors.json"

type vectors struct {
	About       string          `json:"about"`
	PB1         []*protoVector  `json:"pb1"`
	PB1Refused  []*refusedProto `json:"pb1_refused"`
	JCS1        []*jsonVector   `json:"jcs1"`
	JCS1Refused []*refusedJSON  `json:"jcs1_refused"`
	Raw         []*rawVector    `json:"raw"`
	Combine     []*combinedPart `json:"combine"`
}

type protoVector struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Ignore    []string `json:"ignore,omitempty"`
	SameAs    string   `json:"same_as,omitempty"`
	Wire      []string `json:"wire"`
	Canonical string   `json:"canonical"`
	Digest    string   `json:"digest"`
}

type refusedProto struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Wire string `json:"wire"`
}

type jsonVector struct {
	Name      string   `json:"name"`
	Text      []string `json:"text"`
	Canonical string   `json:"canonical"`
	Digest    string   `json:"digest"`
}

type refusedJSON struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
	Hex  string `json:"hex,omitempty"`
}

type rawVector struct {
	Name   string `json:"name"`
	Hex    string `json:"hex"`
	Digest string `json:"digest"`
}

type combinedPart struct {
	Name   string   `json:"name"`
	Scheme string   `json:"scheme"`
	Parts  []string `json:"parts"`
	Digest string   `json:"digest"`
}

func TestVectorsGiveTheirPublishedDigests(t *testing.T) {
	v := readVectors(t)
	types := testTypes(t)
	for _, c := range v.PB1 {
		t.Run("pb1/"+c.Name, func(t *testing.T) { checkProtoVector(t, types, c) })
	}
	for _, c := range v.JCS1 {
		t.Run("jcs1/"+c.Name, func(t *testing.T) { checkJSONVector(t, c) })
	}
	for _, c := range v.Raw {
		t.Run("raw/"+c.Name, func(t *testing.T) { frozen(t, &c.Digest, Raw(unhex(t, c.Hex)).Digest) })
	}
	for _, c := range v.Combine {
		t.Run("combine/"+c.Name, func(t *testing.T) {
			var parts [][]byte
			for _, part := range c.Parts {
				parts = append(parts, unhex(t, part))
			}
			frozen(t, &c.Digest, Combine(c.Scheme, parts...).Digest)
		})
	}
	if *update {
		writeVectors(t, v)
	}
}

func checkProtoVector(t *testing.T, types *dynamicpb.Types, c *protoVector) {
	for _, wire := range c.Wire {
		m := parse(t, types, c.Type, unhex(t, wire))
		digester, err := NewMessage(m.Descriptor(), MessageConfig{Ignore: c.Ignore, Resolver: types})
		if err != nil {
			t.Fatal(err)
		}
		canonical := canonicalProto(t, digester, m)
		frozen(t, &c.Canonical, canonical)
		got, err := digester.Fingerprint(m.Interface())
		if err != nil || got.Scheme != "pb1" {
			t.Fatalf("got %v, %v for wire %s", got, err, wire)
		}
		frozen(t, &c.Digest, got.Digest)
	}
}

func checkJSONVector(t *testing.T, c *jsonVector) {
	for _, text := range c.Text {
		canonical, err := new(jsonWriter).document([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if *update && c.Canonical == "" {
			c.Canonical = string(canonical)
		}
		if string(canonical) != c.Canonical {
			t.Errorf("text %s\n got %s\nwant %s", text, canonical, c.Canonical)
		}
		got, err := JSON([]byte(text))
		if err != nil || got.Scheme != "jcs1" {
			t.Fatalf("got %v, %v for %s", got, err, text)
		}
		frozen(t, &c.Digest, got.Digest)
	}
}

// frozen fails where got is not what was published; with -update, where two
// inputs of one vector differ.
func frozen(t *testing.T, want *string, got []byte) {
	t.Helper()
	if *update && *want == "" {
		*want = hex.EncodeToString(got)
	}
	if hex.EncodeToString(got) != *want {
		t.Errorf("got  %x\nwant %s", got, *want)
	}
}

func TestVectorsThatMustDifferDo(t *testing.T) {
	v := readVectors(t)
	seen := map[string]string{}
	differ := func(scheme, name, digest, sameAs string) {
		t.Helper()
		other, taken := seen[scheme+digest]
		if sameAs != other {
			t.Errorf("%s: %q digests as %q, should as %q", scheme, name, other, sameAs)
		}
		if !taken {
			seen[scheme+digest] = name
		}
	}
	for _, c := range v.PB1 {
		differ("pb1", c.Name, c.Digest, c.SameAs)
	}
	for _, c := range v.JCS1 {
		differ("jcs1", c.Name, c.Digest, "")
	}
	for _, c := range v.Raw {
		differ("raw", c.Name, c.Digest, "")
	}
	for _, c := range v.Combine {
		differ("combine", c.Name, c.Digest, "")
	}
}

func TestVectorsThatMustBeRefusedAre(t *testing.T) {
	v := readVectors(t)
	types := testTypes(t)
	for _, c := range v.PB1Refused {
		m := parse(t, types, c.Type, unhex(t, c.Wire))
		if got, err := Proto(m.Interface()); !errors.Is(err, ErrTooDeep) {
			t.Errorf("pb1 %q: got %v, %v, want ErrTooDeep", c.Name, got, err)
		}
	}
	for _, c := range v.JCS1Refused {
		text := []byte(c.Text)
		if c.Hex != "" {
			text = unhex(t, c.Hex)
		}
		if got, err := JSON(text); !errors.Is(err, ErrJSON) && !errors.Is(err, ErrTooDeep) {
			t.Errorf("jcs1 %q: got %v, %v, want ErrJSON or ErrTooDeep", c.Name, got, err)
		}
	}
}

func readVectors(t testing.TB) *vectors {
	t.Helper()
	text, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func writeVectors(t *testing.T, v *vectors) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
