package fingerprint

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FuzzJSON: what is accepted is JSON, and its canonical form is the same document
// and its own canonical form.
func FuzzJSON(f *testing.F) {
	for _, c := range readVectors(f).JCS1 {
		for _, text := range c.Text {
			f.Add([]byte(text))
		}
	}
	for _, c := range readVectors(f).JCS1Refused {
		f.Add([]byte(c.Text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		canonical, err := new(jsonWriter).document(text)
		if err != nil {
			if !errors.Is(err, ErrJSON) && !errors.Is(err, ErrTooDeep) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("accepted %q, which encoding/json does not", text)
		}
		if again, err := new(jsonWriter).document(canonical); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("canonical of canonical: got %q, %v, want %q", again, err, canonical)
		}
		if got, want := decoded(t, canonical), decoded(t, text); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q has become %q", text, canonical)
		}
	})
}

// decoded is the document as encoding/json has it, its numbers canonical.
func decoded(t *testing.T, text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return canonicalNumbers(t, v)
}

func canonicalNumbers(t *testing.T, v any) any {
	switch v := v.(type) {
	case json.Number:
		canonical, err := canonicalJSON(string(v))
		if err != nil {
			t.Fatal(err)
		}
		return json.Number(canonical)
	case []any:
		for i := range v {
			v[i] = canonicalNumbers(t, v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = canonicalNumbers(t, v[name])
		}
	}
	return v
}

// FuzzProto: the canonical form of any message that parses is an encoding of the
// same message, and its own canonical form.
func FuzzProto(f *testing.F) {
	types := testTypes(f)
	names := map[byte]string{}
	for i, name := range append(randomTypes, "OldCharge", "Nested") {
		names[byte(i)] = testPackage + name
	}
	for _, c := range readVectors(f).PB1 {
		for i, name := range names {
			for _, wire := range c.Wire {
				if name == c.Type {
					seed, err := hex.DecodeString(wire)
					if err != nil {
						f.Fatal(err)
					}
					f.Add(i, seed)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, which byte, wire []byte) {
		name, ok := names[which]
		if !ok {
			return
		}
		w := newProtoWriter(types)
		m := w.unpack(name, wire)
		if m == nil {
			return
		}
		d, err := NewMessage(m.Descriptor(), MessageConfig{Resolver: types})
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := w.message(nil, m, nil, 1)
		if errors.Is(err, ErrTooDeep) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		again := w.unpack(name, canonical)
		if again == nil {
			t.Fatalf("canonical %x does not parse", canonical)
		}
		if second := canonicalProto(t, d, again); !bytes.Equal(second, canonical) {
			t.Fatalf("canonical of canonical: got %x, want %x", second, canonical)
		}
		// The order of unknown fields, and the bytes in an Any, are canonical too, and
		// proto.Equal wants them as they came.
		was, is := known(m), known(again)
		if !proto.Equal(was, is) {
			t.Fatalf("%x has become another message, %x:\n%v\n%v", wire, canonical, was, is)
		}
	})
}

// known is a copy of m without unknown fields and without the content of Anys.
func known(m protoreflect.Message) proto.Message {
	c := proto.Clone(m.Interface())
	strip(c.ProtoReflect())
	return c
}

func strip(m protoreflect.Message) {
	m.SetUnknown(nil)
	if content := anyContent(m.Descriptor()); content != nil {
		m.Clear(content)
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
					strip(value.Message())
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				strip(v.List().Get(i).Message())
			}
		default:
			strip(v.Message())
		}
		return true
	})
}
