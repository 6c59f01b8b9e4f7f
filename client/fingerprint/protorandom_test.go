package fingerprint

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

var randomTypes = []string{"Charge", "Scalars", "Presence", "Lists", "Maps", "Legacy", "Modern"}

func TestCanonicalBytesAreAnEncodingOfTheMessageThatIsItsOwn(t *testing.T) {
	types := testTypes(t)
	rapid.Check(t, func(t *rapid.T) {
		m := randomMessage(t, types, rapid.SampledFrom(randomTypes).Draw(t, "type"))
		d := digester(t, types, m)
		canonical := rapidCanonical(t, d, m)
		again := m.Type().New()
		if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: types}).Unmarshal(canonical, again.Interface()); err != nil {
			t.Fatalf("canonical %x does not parse: %v", canonical, err)
		}
		if !proto.Equal(m.Interface(), again.Interface()) {
			t.Fatalf("canonical %x parses to\n%v\nwant\n%v", canonical, again, m)
		}
		if second := rapidCanonical(t, d, again); string(second) != string(canonical) {
			t.Fatalf("canonical of canonical\n got %x\nwant %x", second, canonical)
		}
	})
}

func TestTheOrderOfRecordsOnTheWireDoesNotShow(t *testing.T) {
	types := testTypes(t)
	rapid.Check(t, func(t *rapid.T) {
		m := randomMessage(t, types, rapid.SampledFrom(randomTypes).Draw(t, "type"))
		d := digester(t, types, m)
		wire, err := (proto.MarshalOptions{AllowPartial: true}).Marshal(m.Interface())
		if err != nil {
			t.Fatal(err)
		}
		shuffled := shuffleFields(t, wire)
		again := m.Type().New()
		if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: types}).Unmarshal(shuffled, again.Interface()); err != nil {
			t.Fatal(err)
		}
		got, want := rapidCanonical(t, d, again), rapidCanonical(t, d, m)
		if string(got) != string(want) {
			t.Fatalf("wire %x\n got %x\nwant %x", shuffled, got, want)
		}
	})
}

func TestMessagesDigestAlikeExactlyWhenTheyAreEqual(t *testing.T) {
	types := testTypes(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(randomTypes).Draw(t, "type")
		a := randomMessage(t, types, name)
		b := proto.Clone(a.Interface()).ProtoReflect()
		// One field of b from another message: mostly a difference, now and then none.
		other := randomMessage(t, types, name)
		other.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			b.Set(field, value)
			return false
		})
		fa, errA := digester(t, types, a).Fingerprint(a.Interface())
		fb, errB := digester(t, types, b).Fingerprint(b.Interface())
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if want := proto.Equal(a.Interface(), b.Interface()); fa.Equal(fb) != want {
			t.Fatalf("equal digests: %v, want %v\n%v\n%v", !want, want, a, b)
		}
	})
}

func digester(t *rapid.T, types *dynamicpb.Types, m protoreflect.Message) *Message {
	d, err := NewMessage(m.Descriptor(), MessageConfig{Resolver: types})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func rapidCanonical(t *rapid.T, d *Message, m protoreflect.Message) []byte {
	w := newProtoWriter(d.resolver)
	defer w.free()
	canonical, err := w.message(nil, m, d.ignore, 1)
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}

func randomMessage(t *rapid.T, types *dynamicpb.Types, name string) protoreflect.Message {
	typ, err := types.FindMessageByName(protoreflect.FullName(testPackage + name))
	if err != nil {
		t.Fatal(err)
	}
	m := typ.New()
	fill(t, m, 1)
	return m
}

// fill sets some fields of m at random, from small domains so that equal values
// turn up.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	isAny := anyContent(m.Descriptor()) != nil
	for i := range fields.Len() {
		field := fields.Get(i)
		if isAny || depth > 4 || !rapid.Bool().Draw(t, string(field.Name())) {
			continue
		}
		n := rapid.IntRange(1, 3).Draw(t, "length")
		switch {
		case field.IsMap():
			for range n {
				key := scalar(t, field.MapKey()).MapKey()
				if field.MapValue().Message() == nil {
					m.Mutable(field).Map().Set(key, scalar(t, field.MapValue()))
				} else {
					fill(t, m.Mutable(field).Map().Mutable(key).Message(), depth+1)
				}
			}
		case field.IsList():
			for range n {
				if field.Message() == nil {
					m.Mutable(field).List().Append(scalar(t, field))
				} else {
					fill(t, m.Mutable(field).List().AppendMutable().Message(), depth+1)
				}
			}
		case field.Message() != nil:
			fill(t, m.Mutable(field).Message(), depth+1)
		default:
			m.Set(field, scalar(t, field))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "unknown") {
		raw := protowire.AppendTag(m.GetUnknown(), protowire.Number(rapid.IntRange(900, 902).Draw(t, "number")), protowire.VarintType)
		m.SetUnknown(protowire.AppendVarint(raw, rapid.Uint64Range(0, 200).Draw(t, "value")))
	}
}

func scalar(t *rapid.T, field protoreflect.FieldDescriptor) protoreflect.Value {
	signed := rapid.SampledFrom([]int64{0, 1, -1, 127, 128, math.MinInt32, math.MaxInt32})
	unsigned := rapid.SampledFrom([]uint64{0, 1, 127, 128, math.MaxInt32, math.MaxUint32})
	// No minus zero: proto.Equal does not tell it from zero, the digest does.
	double := rapid.SampledFrom([]float64{0, 1, -1.5, math.NaN(), math.Inf(1), math.MaxFloat32})
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(0, 2).Draw(t, "enum")))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(signed.Draw(t, "int32")))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(signed.Draw(t, "int64") << 20)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(unsigned.Draw(t, "uint32")))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(unsigned.Draw(t, "uint64") << 32)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(double.Draw(t, "float")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(double.Draw(t, "double"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringN(0, 3, 130).Draw(t, "string"))
	default:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 130).Draw(t, "bytes"))
	}
}

// shuffleFields puts the records of a message in another order. Of one number
// they keep theirs, which means something.
func shuffleFields(t *rapid.T, wire []byte) []byte {
	byNumber := map[protowire.Number][][]byte{}
	var numbers []protowire.Number
	for len(wire) > 0 {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		byNumber[number] = append(byNumber[number], wire[:n])
		numbers = append(numbers, number)
		wire = wire[n:]
	}
	var out []byte
	for _, number := range rapid.Permutation(numbers).Draw(t, "order") {
		out = append(out, byNumber[number][0]...)
		byNumber[number] = byNumber[number][1:]
	}
	return out
}
