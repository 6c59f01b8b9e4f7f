package fingerprint

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Resolver finds the types that google.protobuf.Any names.
// [protoregistry.Types] is one.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// MessageConfig is how messages of one type are digested.
type MessageConfig struct {
	// Ignore names fields that may differ between retries, as proto field names
	// joined by dots ("client.trace_id"). A path goes through repeated fields and
	// map values and then means every element. The field named last is left out
	// whole; the messages around it stay.
	Ignore []string
	// Resolver finds the content of google.protobuf.Any. Nil means
	// protoregistry.GlobalTypes; new(protoregistry.Types) knows no type, so that
	// content is digested as the bytes it came in.
	Resolver Resolver
}

// Message digests messages of one type by scheme pb1. It may be used by many
// goroutines at once.
type Message struct {
	name     protoreflect.FullName
	prefix   []byte
	ignore   *ignored
	resolver Resolver
}

// NewMessage prepares for messages of the given type. The error is [ErrPath]
// where the type has no field by an ignored path.
func NewMessage(desc protoreflect.MessageDescriptor, config MessageConfig) (*Message, error) {
	ignore, err := parseIgnore(desc, config.Ignore)
	if err != nil {
		return nil, err
	}
	resolver := config.Resolver
	if resolver == nil {
		resolver = protoregistry.GlobalTypes
	}
	name := desc.FullName()
	return &Message{
		name:     name,
		prefix:   []byte(SchemeProto + "\x00" + string(name) + "\x00"),
		ignore:   ignore,
		resolver: resolver,
	}, nil
}

// Fingerprint digests a message, which is only read. Required fields need not be
// set. Errors: [ErrMessage] for nil, for another type and for unknown fields that
// are not protobuf; [ErrTooDeep].
func (d *Message) Fingerprint(message proto.Message) (Fingerprint, error) {
	if message == nil || !message.ProtoReflect().IsValid() {
		return Fingerprint{}, fmt.Errorf("%w: nil instead of %s", ErrMessage, d.name)
	}
	m := message.ProtoReflect()
	if name := m.Descriptor().FullName(); name != d.name {
		return Fingerprint{}, fmt.Errorf("%w: %s instead of %s", ErrMessage, name, d.name)
	}
	w := newProtoWriter(d.resolver)
	defer w.free()
	input, err := w.message(append(w.buffer[:0], d.prefix...), m, d.ignore, 1)
	if err != nil {
		return Fingerprint{}, err
	}
	w.buffer = input
	sum := sha256.Sum256(input)
	return Fingerprint{Scheme: SchemeProto, Digest: sum[:]}, nil
}

// Proto digests one message by scheme pb1, with [MessageConfig]'s ignore paths
// and default resolver. Where many messages of a type are digested, [NewMessage]
// looks the paths up once.
func Proto(message proto.Message, ignore ...string) (Fingerprint, error) {
	if message == nil {
		return Fingerprint{}, fmt.Errorf("%w: nil", ErrMessage)
	}
	digester, err := NewMessage(message.ProtoReflect().Descriptor(), MessageConfig{Ignore: ignore})
	if err != nil {
		return Fingerprint{}, err
	}
	return digester.Fingerprint(message)
}
