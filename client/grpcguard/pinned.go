package grpcguard

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoiface"
)

// pinned is a message that marshals to given bytes.
//
// A decoded message does not marshal to the bytes it was read from: map entries
// come in any order, and what its reader's build does not know goes to the end.
// gRPC's codec marshals whatever proto.Message an interceptor returns, and
// marshalling asks the message itself first, by ProtoMethods. So a pinned message
// is read as what it was decoded to, and written as what was kept.
type pinned struct {
	protoreflect.Message // what it reads as
	body                 []byte
}

// pin gives message with the encoding body. Its ProtoReflect().Interface() is
// message itself.
func pin(message proto.Message, body []byte) proto.Message {
	return &pinned{Message: message.ProtoReflect(), body: body}
}

func (p *pinned) ProtoReflect() protoreflect.Message { return p }

func (p *pinned) String() string { return fmt.Sprint(p.Interface()) }

// ProtoMethods has size and encoding alone; all else is done by reflection.
func (p *pinned) ProtoMethods() *protoiface.Methods {
	return &protoiface.Methods{
		Flags: protoiface.SupportMarshalDeterministic,
		Size: func(protoiface.SizeInput) protoiface.SizeOutput {
			return protoiface.SizeOutput{Size: len(p.body)}
		},
		Marshal: func(in protoiface.MarshalInput) (protoiface.MarshalOutput, error) {
			return protoiface.MarshalOutput{Buf: append(in.Buf, p.body...)}, nil
		},
	}
}
