package fingerprint

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// A message of 1 KiB on the wire: generated Go with some thirty fields.
func kilobyteMessage() *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String("Charge")}
	for i := range 16 {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name:     proto.String(fmt.Sprint("field_", i)),
			Number:   proto.Int32(int32(i + 1)),
			Type:     descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			JsonName: proto.String(strings.Repeat("x", 40)),
		})
	}
	return m
}

func kilobyteJSON() []byte {
	var members []string
	for i := range 16 {
		members = append(members, fmt.Sprintf(`"field %d": {"amount": %d.50, "note": "%s"}`, 20-i, i, strings.Repeat("x", 22)))
	}
	return []byte("{" + strings.Join(members, ", ") + "}")
}

func BenchmarkProtoOfAKilobyte(b *testing.B) {
	m := kilobyteMessage()
	d, err := NewMessage(m.ProtoReflect().Descriptor(), MessageConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(proto.Size(m)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Fingerprint(m); err != nil {
			b.Fatal(err)
		}
	}
}

// Beside it: what marshalling and hashing the same message costs, which is no
// fingerprint.
func BenchmarkMarshalAndHashOfAKilobyte(b *testing.B) {
	m := kilobyteMessage()
	b.SetBytes(int64(proto.Size(m)))
	b.ReportAllocs()
	for b.Loop() {
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		Raw(wire)
	}
}

func BenchmarkProtoOfAStructOfAKilobyte(b *testing.B) {
	fields := map[string]*structpb.Value{}
	for i := range 24 {
		fields[fmt.Sprint("field ", i)] = structpb.NewStringValue(strings.Repeat("x", 25))
	}
	m := &structpb.Struct{Fields: fields}
	d, err := NewMessage(m.ProtoReflect().Descriptor(), MessageConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(proto.Size(m)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Fingerprint(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONOfAKilobyte(b *testing.B) {
	text := kilobyteJSON()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := JSON(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRawOfAKilobyte(b *testing.B) {
	text := kilobyteJSON()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Raw(text)
	}
}

// The worst that nesting can make of sorting: each level moved, as deep as goes.
func BenchmarkJSONOfAMegabyteInAHundredUnsortedObjects(b *testing.B) {
	text := []byte(strings.Repeat(`{"b":`, MaxDepth) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`,"a":0}`, MaxDepth))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := JSON(text); err != nil {
			b.Fatal(err)
		}
	}
}
