package methodoptions

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1" // annotated methods
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

func TestAMethodIsFoundByItsFullNameWithOrWithoutTheSlash(t *testing.T) {
	for _, name := range []string{"/testservice.v1.ChargeService/Charge", "testservice.v1.ChargeService/Charge"} {
		m, ok := Find(protoregistry.GlobalFiles, name)
		if !ok || m.Operation != "testservice.v1.ChargeService/Charge" || m.Options.GetKeyField() != "request_id" {
			t.Errorf("Find(%q) = %+v, %t; want Charge with key_field request_id", name, m, ok)
		}
	}
}

func TestWhatNamesNoMethodIsNotFound(t *testing.T) {
	for _, name := range []string{
		"", "/", "//", "/testservice.v1.ChargeService", "/testservice.v1.ChargeService/Missing",
		"/testservice.v1.Missing/Charge", "/testservice.v1.ChargeRequest/Charge",
	} {
		if m, ok := Find(protoregistry.GlobalFiles, name); ok {
			t.Errorf("Find(%q) = %+v; want nothing", name, m)
		}
	}
}

func TestOnlyAnnotatedMethodsAreListedAndAnEmptyAnnotationIsOne(t *testing.T) {
	var got []string
	for _, m := range Annotated(protoregistry.GlobalFiles) {
		if service, method, _ := strings.Cut(m.Operation, "/"); service == "testservice.v1.ChargeService" {
			got = append(got, method)
		}
	}
	slices.Sort(got)
	if want := []string{"Capture", "Charge", "Refund"}; !slices.Equal(got, want) {
		t.Errorf("annotated methods are %q, want %q", got, want)
	}
}

func TestWhatCannotBeGuardedSaysWhy(t *testing.T) {
	unary := testMethod(t, &descriptorpb.MethodDescriptorProto{}, nil)
	if err := unary.Guardable(); err != nil {
		t.Errorf("a unary method: %v, want none", err)
	}
	cases := map[string]*descriptorpb.MethodDescriptorProto{
		"a stream":        {ServerStreaming: proto.Bool(true)},
		"which has no on": {ClientStreaming: proto.Bool(true)},
		"NO_SIDE_EFFECTS": {Options: &descriptorpb.MethodOptions{
			IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum(),
		}},
	}
	for want, method := range cases {
		err := testMethod(t, method, &optionsv1.IdempotencyOptions{}).Guardable()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "test.S/M") {
			t.Errorf("Guardable() = %v, want an error that names test.S/M and says %q", err, want)
		}
	}
}

func TestAKeyFieldIsASingleStringOfTheRequestItself(t *testing.T) {
	m := testMethod(t, &descriptorpb.MethodDescriptorProto{}, nil)
	for _, name := range []string{"plain", "perhaps"} {
		if fd, err := m.KeyField(name); err != nil || string(fd.Name()) != name {
			t.Errorf("KeyField(%q) = %v, %v; want the field", name, fd, err)
		}
	}
	for name, want := range map[string]string{
		"missing": "is no field of test.Q",
		"":        "is no field of test.Q",
		"many":    "is no single string",
		"number":  "is no single string",
		"either":  "is one of a oneof",
	} {
		if _, err := m.KeyField(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("KeyField(%q) = %v, want an error that says %q", name, err, want)
		}
	}
}

// testMethod builds test.S/M from what is given, with a request test.Q.
func testMethod(t *testing.T, method *descriptorpb.MethodDescriptorProto, options *optionsv1.IdempotencyOptions) Method {
	t.Helper()
	method.Name, method.InputType, method.OutputType = proto.String("M"), proto.String(".test.Q"), proto.String(".test.Q")
	if options != nil {
		if method.Options == nil {
			method.Options = &descriptorpb.MethodOptions{}
		}
		proto.SetExtension(method.Options, optionsv1.E_Idempotency, options)
	}
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, JsonName: &name, Number: &number, Type: &kind,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	const text, number = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64
	many, perhaps, either := field("many", 2, text), field("perhaps", 3, text), field("either", 4, text)
	many.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	perhaps.Proto3Optional, perhaps.OneofIndex = proto.Bool(true), proto.Int32(1)
	either.OneofIndex = proto.Int32(0)
	fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("test.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:  proto.String("Q"),
			Field: []*descriptorpb.FieldDescriptorProto{field("plain", 1, text), many, either, field("number", 5, number), perhaps},
			OneofDecl: []*descriptorpb.OneofDescriptorProto{
				{Name: proto.String("choice")}, {Name: proto.String("_perhaps")},
			},
		}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{method},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	var files protoregistry.Files
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	m, ok := Find(&files, "/test.S/M")
	if !ok {
		t.Fatalf("test.S/M is not found in %v", fd.Services().Get(0).Methods().ByName(protoreflect.Name("M")))
	}
	return m
}
