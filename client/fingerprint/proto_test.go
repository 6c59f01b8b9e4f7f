package fingerprint

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const testPackage = "oncekeeper.fingerprint.test."

func manyFields(t testing.TB, n int) *structpb.Struct {
	t.Helper()
	fields := map[string]any{}
	for i := range n {
		fields[fmt.Sprint("field ", i)] = i
	}
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustProto(t testing.TB, m proto.Message, ignore ...string) Fingerprint {
	t.Helper()
	f, err := Proto(m, ignore...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestARequestMadeAnewHasTheSameFingerprint(t *testing.T) {
	packed := func() *anypb.Any {
		// Packing marshals, and that orders map entries at random.
		a, err := anypb.New(manyFields(t, 30))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, request := range map[string]func() proto.Message{
		"map": func() proto.Message { return manyFields(t, 30) },
		"Any": func() proto.Message { return packed() },
	} {
		want := mustProto(t, request())
		for range 20 {
			if got := mustProto(t, request()); !got.Equal(want) {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
}

func TestTheSameWireDigestsAlikeInGeneratedAndDynamicMessages(t *testing.T) {
	generated := manyFields(t, 5)
	dynamic := dynamicpb.NewMessage(generated.ProtoReflect().Descriptor())
	wire, err := proto.Marshal(generated)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(wire, dynamic); err != nil {
		t.Fatal(err)
	}
	if got, want := mustProto(t, dynamic), mustProto(t, generated); !got.Equal(want) {
		t.Errorf("dynamic %s, generated %s", got, want)
	}
}

func TestAFieldAddedLaterAndLeftUnsetChangesNothing(t *testing.T) {
	types := testTypes(t)
	wire := unhex(t, "0a03722d3110e2091a03455552")
	for _, name := range []string{"Charge", "OldCharge"} {
		m := parse(t, types, testPackage+name, wire)
		d, err := NewMessage(m.Descriptor(), MessageConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if got := canonicalProto(t, d, m); string(got) != string(wire) {
			t.Errorf("%s: got %x, want %x", name, got, wire)
		}
	}
}

func TestAnyContentDependsOnTheResolver(t *testing.T) {
	// Seconds after nanos: not the canonical order.
	content := unhex(t, "10050801")
	m := &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Timestamp", Value: content}
	digest := func(resolver Resolver) Fingerprint {
		d, err := NewMessage(m.ProtoReflect().Descriptor(), MessageConfig{Resolver: resolver})
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Fingerprint(m)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	global, none := digest(nil), digest(new(protoregistry.Types))
	if global.Equal(none) {
		t.Error("the content was digested as bytes though its type is linked")
	}
	m.Value = unhex(t, "08011005")
	if got := digest(nil); !got.Equal(global) {
		t.Errorf("another order of fields in the content: got %s, want %s", got, global)
	}
	if got := digest(new(protoregistry.Types)); !got.Equal(global) {
		t.Errorf("canonical bytes of a type that is not known: got %s, want %s", got, global)
	}
	if string(m.Value) != "\x08\x01\x10\x05" {
		t.Errorf("the message was changed: %x", m.Value)
	}
}

func TestOnlyPathsThatExistCanBeIgnored(t *testing.T) {
	types := testTypes(t)
	desc := parse(t, types, testPackage+"Charge", nil).Descriptor()
	for _, good := range []string{"client", "client.trace_id", "lines.sku", "lines.handlers.name", "labels", "detail", "tip", "attributes.fields.number_value"} {
		if _, err := NewMessage(desc, MessageConfig{Ignore: []string{good}}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "client.", ".client", "client..name", "Client", "traceId", "client.traceId", "amount.x", "labels.x", "labels.key", "lines.0.sku", "detail.seconds", "client.trace_id.x", "client.*"} {
		if _, err := NewMessage(desc, MessageConfig{Ignore: []string{"client", bad}}); !errors.Is(err, ErrPath) {
			t.Errorf("%q: got %v, want ErrPath", bad, err)
		}
	}
}

func TestAPathInsideAnIgnoredMessageDoesNotBringItBack(t *testing.T) {
	types := testTypes(t)
	m := parse(t, types, testPackage+"Charge", unhex(t, "22050a03617070")).Interface()
	want := mustProto(t, m, "client")
	for _, ignore := range [][]string{{"client", "client.trace_id"}, {"client.trace_id", "client"}} {
		if got := mustProto(t, m, ignore...); !got.Equal(want) {
			t.Errorf("%v: got %s, want %s", ignore, got, want)
		}
	}
}

func TestOneDigesterServesManyGoroutines(t *testing.T) {
	d, err := NewMessage((&structpb.Struct{}).ProtoReflect().Descriptor(), MessageConfig{Ignore: []string{"fields.bool_value"}})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			m := manyFields(t, 10+n)
			want := mustProto(t, m)
			for range 50 {
				if got, err := d.Fingerprint(m); err != nil || !got.Equal(want) {
					t.Errorf("got %s, %v, want %s", got, err, want)
				}
			}
		})
	}
	group.Wait()
}

func TestUnknownGroupsAreOrderedInsideToo(t *testing.T) {
	group := func(inside []byte) proto.Message {
		m := &timestamppb.Timestamp{}
		raw := protowire.AppendTag(nil, 9, protowire.StartGroupType)
		raw = protowire.AppendTag(append(raw, inside...), 9, protowire.EndGroupType)
		m.ProtoReflect().SetUnknown(raw)
		return m
	}
	if a, b := mustProto(t, group([]byte{0x08, 1, 0x10, 2})), mustProto(t, group([]byte{0x10, 2, 0x08, 1})); !a.Equal(b) {
		t.Errorf("%s and %s", a, b)
	}
}
