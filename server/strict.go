package server

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers what strictCodec stands on
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// gRPC answers a message that it cannot decode with Internal, before any
// interceptor. A key that is not UTF-8 is such a message, and a fault of the
// caller's; so the service's methods take the bytes and decode them here.

// undecoded receives a message, and where that cannot be decoded, what came.
type undecoded struct {
	into   proto.Message
	failed bool
	data   []byte
	// answer is set where the call's answer is a large one.
	answer *untaken
}

// strictCodec is gRPC's codec for protobuf, which also gives messages undecoded and
// tells when large ones were written.
type strictCodec struct{}

var protoCodec = encoding.GetCodecV2("proto")

func (strictCodec) Name() string { return "proto" }

func (strictCodec) Marshal(v any) (mem.BufferSlice, error) {
	if large, ok := v.(*counted); ok {
		return large.marshal()
	}
	return protoCodec.Marshal(v)
}

func (strictCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*undecoded); ok {
		if protoCodec.Unmarshal(data, raw.into) != nil {
			proto.Reset(raw.into) // half of a request is none
			raw.data, raw.failed = data.Materialize(), true
		}
		return nil
	}
	return protoCodec.Unmarshal(data, v)
}

// registerStrict registers a service of unary methods whose undecodable requests
// are answered as invalid: once it is known who asks, and not before.
func (s *Server) registerStrict(desc *grpc.ServiceDesc, impl any) {
	strict := *desc
	strict.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		strict.Methods[i] = grpc.MethodDesc{
			MethodName: m.MethodName,
			Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				raw := &undecoded{}
				return raw.answered(m.Handler(srv, context.WithValue(ctx, undecodedKey{}, raw), func(v any) error {
					raw.into = v.(proto.Message)
					return dec(raw)
				}, interceptor))
			},
		}
	}
	s.grpc.RegisterService(&strict, impl)
}

type undecodedKey struct{}

// refuseUndecoded answers a request that cannot be decoded. It stands behind whatever
// refuses who calls.
func (s *Server) refuseUndecoded(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	raw, _ := ctx.Value(undecodedKey{}).(*undecoded)
	if raw == nil || !raw.failed {
		return handler(ctx, req)
	}
	if s.trust != nil && !auth.FromContext(ctx).MayCall(info.FullMethod) {
		return nil, s.statusOf(ctx, s.denied(ctx, info.FullMethod), "")
	}
	return nil, s.undecodable(ctx, raw)
}

// undecodable names what is wrong with a request.
func (s *Server) undecodable(ctx context.Context, raw *undecoded) error {
	desc := raw.into.ProtoReflect().Descriptor()
	violation := wire.FieldViolation{Field: "request", Description: "is not a valid " + string(desc.FullName())}
	if path := invalidUTF8(raw.data, desc); path != "" {
		violation = wire.FieldViolation{Field: path, Description: "is not valid UTF-8"}
	}
	return s.statusOf(ctx, &invalid{violations: []wire.FieldViolation{violation}}, "")
}

// invalidUTF8 gives the path of the first string in data, an encoded desc, that
// is not UTF-8; empty for none.
func invalidUTF8(data []byte, desc protoreflect.MessageDescriptor) string {
	seen := map[protoreflect.FieldNumber]int{}
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return ""
		}
		size := protowire.ConsumeFieldValue(num, typ, data[n:])
		if size < 0 {
			return ""
		}
		field := desc.Fields().ByNumber(num)
		if field != nil && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[n:])
			if path := invalidField(value, field, seen[num]); path != "" {
				return path
			}
			seen[num]++
		}
		data = data[n+size:]
	}
	return ""
}

func invalidField(value []byte, field protoreflect.FieldDescriptor, index int) string {
	name := string(field.Name())
	if field.IsList() {
		name = fmt.Sprintf("%s[%d]", name, index)
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		if !utf8.Valid(value) {
			return name
		}
	case protoreflect.MessageKind:
		if inner := invalidUTF8(value, field.Message()); inner != "" {
			return name + "." + inner
		}
	}
	return ""
}
