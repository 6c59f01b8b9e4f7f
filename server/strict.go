package server

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers what strictCodec stands on
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// gRPC answers a message that it cannot decode with Internal, before any
// interceptor. A key that is not UTF-8 is such a message, and a fault of the
// caller's; so the service's methods take the bytes and decode them here.

// undecoded receives a message, and where that cannot be decoded, what came.
type undecoded struct {
	into   proto.Message
	failed bool
	data   []byte
}

// strictCodec is gRPC's codec for protobuf, which also gives messages undecoded.
type strictCodec struct{}

var protoCodec = encoding.GetCodecV2("proto")

func (strictCodec) Name() string { return "proto" }

func (strictCodec) Marshal(v any) (mem.BufferSlice, error) { return protoCodec.Marshal(v) }

func (strictCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*undecoded); ok {
		if protoCodec.Unmarshal(data, raw.into) != nil {
			raw.data, raw.failed = data.Materialize(), true
		}
		return nil
	}
	return protoCodec.Unmarshal(data, v)
}

// registerStrict registers a service of unary methods whose undecodable requests
// are answered as invalid.
func (s *Server) registerStrict(desc *grpc.ServiceDesc, impl any) {
	strict := *desc
	strict.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + m.MethodName
		strict.Methods[i] = grpc.MethodDesc{
			MethodName: m.MethodName,
			Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				return m.Handler(srv, ctx, func(v any) error {
					err := decodeStrict(ctx, dec, v)
					if err != nil {
						s.countUndecoded(name)
					}
					return err
				}, interceptor)
			},
		}
	}
	s.grpc.RegisterService(&strict, impl)
}

func decodeStrict(ctx context.Context, dec func(any) error, v any) error {
	m := v.(proto.Message)
	raw := undecoded{into: m}
	if err := dec(&raw); err != nil {
		return err
	}
	if !raw.failed {
		return nil
	}
	violation := wire.FieldViolation{Field: "request", Description: "is not a valid " + string(m.ProtoReflect().Descriptor().FullName())}
	if path := invalidUTF8(raw.data, m.ProtoReflect().Descriptor()); path != "" {
		violation = wire.FieldViolation{Field: path, Description: "is not valid UTF-8"}
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ReasonTrailer, sentinelInvalid.Reason()))
	return wire.Status(sentinelInvalid, "", wire.Details{Violations: []wire.FieldViolation{violation}}).Err()
}

var sentinelInvalid, _ = oncekeeper.SentinelOf(oncekeeper.ErrInvalidRequest)

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
