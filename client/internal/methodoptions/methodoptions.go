// Package methodoptions reads what a service's own proto says of its methods:
// the option oncekeeper.options.v1.idempotency, found by a method's full name.
//
// It owns that reading and its checks, so that both ends of a call mean the same
// by an annotation. What to do about one is its callers' affair.
package methodoptions

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

// Method is a unary or streaming method and what its proto says of it.
type Method struct {
	// Operation is "package.Service/Method", with no leading slash.
	Operation  string
	Descriptor protoreflect.MethodDescriptor
	// Options is nil where the method is not annotated. It is shared: read it.
	Options *optionsv1.IdempotencyOptions
}

// Operation gives the operation that a gRPC full method name ("/p.S/M") names.
func Operation(fullMethod string) string { return strings.TrimPrefix(fullMethod, "/") }

// Find gives the method that a full name, with or without its slash, names in
// files. It is false where files know no such method.
func Find(files *protoregistry.Files, fullMethod string) (Method, bool) {
	operation := Operation(fullMethod)
	service, method, ok := strings.Cut(operation, "/")
	if !ok {
		return Method{}, false
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return Method{}, false
	}
	sd, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return Method{}, false
	}
	md := sd.Methods().ByName(protoreflect.Name(method))
	if md == nil {
		return Method{}, false
	}
	return describe(md), true
}

// Annotated gives the annotated methods of files, in no order.
func Annotated(files *protoregistry.Files) []Method {
	var all []Method
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			methods := fd.Services().Get(i).Methods()
			for j := range methods.Len() {
				if m := describe(methods.Get(j)); m.Options != nil {
					all = append(all, m)
				}
			}
		}
		return true
	})
	return all
}

func describe(md protoreflect.MethodDescriptor) Method {
	m := Method{Operation: string(md.Parent().FullName()) + "/" + string(md.Name()), Descriptor: md}
	if options := md.Options(); proto.HasExtension(options, optionsv1.E_Idempotency) {
		m.Options, _ = proto.GetExtension(options, optionsv1.E_Idempotency).(*optionsv1.IdempotencyOptions)
	}
	return m
}

// Guardable says why no guard can stand before the method, or nil: a stream has
// no one answer to replay, and what has no side effects needs no guard.
func (m Method) Guardable() error {
	if m.Descriptor.IsStreamingClient() || m.Descriptor.IsStreamingServer() {
		return fmt.Errorf("%s is a stream, which has no one answer to replay", m.Operation)
	}
	options, _ := m.Descriptor.Options().(*descriptorpb.MethodOptions)
	if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return fmt.Errorf("%s says idempotency_level NO_SIDE_EFFECTS, so there is nothing to guard", m.Operation)
	}
	return nil
}

// KeyField is the package's KeyField of the method's request. Its error names the
// method.
func (m Method) KeyField(name string) (protoreflect.FieldDescriptor, error) {
	fd, err := KeyField(m.Descriptor.Input(), name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Operation, err)
	}
	return fd, nil
}

// KeyField gives the field of a request that is the key: a singular string of the
// request itself, and of no oneof.
func KeyField(request protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	fd := request.Fields().ByName(protoreflect.Name(name))
	switch {
	case fd == nil:
		return nil, fmt.Errorf("key_field %q is no field of %s", name, request.FullName())
	case fd.Kind() != protoreflect.StringKind || fd.Cardinality() == protoreflect.Repeated:
		return nil, fmt.Errorf("key_field %q is no single string", name)
	case fd.ContainingOneof() != nil && !fd.HasOptionalKeyword():
		return nil, fmt.Errorf("key_field %q is one of a oneof, where setting it would unset another", name)
	}
	return fd, nil
}
