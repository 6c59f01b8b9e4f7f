package fingerprint

import (
	"encoding/hex"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// testTypes are the messages of testdata/*.proto, as they say how to compile.
func testTypes(t testing.TB) *dynamicpb.Types {
	t.Helper()
	wire, err := os.ReadFile("testdata/vectors.binpb")
	if err != nil {
		t.Fatal(err)
	}
	// Options of the descriptors themselves would be read by the global registry.
	var set descriptorpb.FileDescriptorSet
	if err := (proto.UnmarshalOptions{Resolver: new(protoregistry.Types)}).Unmarshal(wire, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewTypes(files)
}

func parse(t testing.TB, types *dynamicpb.Types, name string, wire []byte) protoreflect.Message {
	t.Helper()
	m := newMessage(t, types, name)
	options := proto.UnmarshalOptions{AllowPartial: true, Resolver: types}
	if err := options.Unmarshal(wire, m.Interface()); err != nil {
		t.Fatalf("%s %x: %v", name, wire, err)
	}
	return m
}

func newMessage(t testing.TB, types *dynamicpb.Types, name string) protoreflect.Message {
	t.Helper()
	typ, err := types.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	return typ.New()
}

func canonicalProto(t testing.TB, d *Message, m protoreflect.Message) []byte {
	t.Helper()
	w := newProtoWriter(d.resolver)
	defer w.free()
	canonical, err := w.message(nil, m, d.ignore, 1)
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
