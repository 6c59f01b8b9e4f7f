package fingerprint

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestContentThatMakesTheParserPanicKeepsItsBytes(t *testing.T) {
	types := testTypes(t)
	digest := func(content string) Fingerprint {
		m := &anypb.Any{TypeUrl: "type.googleapis.com/" + testPackage + "Modern", Value: unhex(t, content)}
		d, err := NewMessage(m.ProtoReflect().Descriptor(), MessageConfig{Resolver: types})
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Fingerprint(m)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	// A map entry with a string as its key, and then a number as its key.
	if digest("32050a01300802").Equal(digest("32050a01300803")) {
		t.Error("two contents have one digest")
	}
}

func TestWhatIsNoMessageOfTheTypeIsRefused(t *testing.T) {
	d, err := NewMessage((&structpb.Struct{}).ProtoReflect().Descriptor(), MessageConfig{})
	if err != nil {
		t.Fatal(err)
	}
	broken := &structpb.Struct{}
	broken.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8})
	for name, m := range map[string]proto.Message{
		"nil":              nil,
		"a nil pointer":    (*structpb.Struct)(nil),
		"another type":     &timestamppb.Timestamp{},
		"unknown and torn": broken,
	} {
		if got, err := d.Fingerprint(m); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: got %v, %v, want ErrMessage", name, got, err)
		}
	}
	if _, err := Proto(nil); !errors.Is(err, ErrMessage) {
		t.Errorf("Proto(nil): got %v, want ErrMessage", err)
	}
}

func TestNestingPastAnyStackIsAnError(t *testing.T) {
	value := structpb.NewNullValue()
	for range 100_000 {
		value = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{value}})
	}
	if got, err := Proto(value); !errors.Is(err, ErrTooDeep) {
		t.Errorf("messages: got %v, %v, want ErrTooDeep", got, err)
	}
	groups := &structpb.Struct{}
	groups.ProtoReflect().SetUnknown([]byte(strings.Repeat("\x0b", 5000) + strings.Repeat("\x0c", 5000)))
	if got, err := Proto(groups); !errors.Is(err, ErrTooDeep) {
		t.Errorf("groups: got %v, %v, want ErrTooDeep", got, err)
	}
	nest := &anypb.Any{}
	for range 200 {
		next, err := anypb.New(nest)
		if err != nil {
			t.Fatal(err)
		}
		nest = next
	}
	if got, err := Proto(nest); !errors.Is(err, ErrTooDeep) {
		t.Errorf("Any in Any: got %v, %v, want ErrTooDeep", got, err)
	}
}

func TestARefusedMessageLeavesNothingForTheNext(t *testing.T) {
	good := manyFields(t, 3)
	want := mustProto(t, good)
	// One fields entry, then torn unknown fields, two levels down.
	torn := structpb.NewStructValue(manyFields(t, 4))
	torn.GetStructValue().Fields["field 2"].ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8})
	for range 20 {
		if _, err := Proto(torn); !errors.Is(err, ErrMessage) {
			t.Fatalf("got %v, want ErrMessage", err)
		}
		if got := mustProto(t, good); !got.Equal(want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestAWriterGivenBackHoldsNothingOfTheRequest(t *testing.T) {
	torn := structpb.NewStructValue(manyFields(t, 4))
	for _, value := range torn.GetStructValue().Fields {
		value.ProtoReflect().SetUnknown([]byte{0x0b, 0x08, 0x01, 0x0c, 0xf8})
	}
	w := newProtoWriter(protoregistry.GlobalTypes)
	if _, err := w.message(nil, torn.ProtoReflect(), nil, 1); !errors.Is(err, ErrMessage) {
		t.Fatalf("got %v, want ErrMessage", err)
	}
	w.free()
	for _, field := range w.fields[:cap(w.fields)] {
		if field.desc != nil || field.value.IsValid() {
			t.Error("a field is kept")
		}
	}
	for _, entry := range w.entries[:cap(w.entries)] {
		if entry.key.IsValid() || entry.value.IsValid() {
			t.Error("a map entry is kept")
		}
	}
	for _, record := range w.records[:cap(w.records)] {
		if record.value != nil {
			t.Error("an unknown record is kept")
		}
	}
	if len(w.fields)+len(w.entries)+len(w.records) > 0 || w.resolver != nil {
		t.Error("not empty")
	}
}

func TestMessagesSideBySideShareTheWritersRoom(t *testing.T) {
	list := &structpb.ListValue{}
	for range 10_000 {
		list.Values = append(list.Values, structpb.NewStringValue("x"))
	}
	w := protoWriters.New().(*protoWriter) // Not one that another test has filled.
	if _, err := w.message(nil, list.ProtoReflect(), nil, 1); err != nil {
		t.Fatal(err)
	}
	if n := cap(w.fields); n > 64 {
		t.Errorf("room for %d fields, want for those of one branch", n)
	}
}

func TestLengthsOfEverySizeArePrefixedRight(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, 128, 16_381, 16_384, 70_000, 2_097_152} {
		m := structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(strings.Repeat("x", size))}})
		d, err := NewMessage(m.ProtoReflect().Descriptor(), MessageConfig{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonicalProto(t, d, m.ProtoReflect()); string(got) != string(want) {
			t.Errorf("%d bytes: canonical begins %x, want %x", size, got[:min(20, len(got))], want[:min(20, len(want))])
		}
	}
}
