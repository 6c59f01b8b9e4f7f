// Package callkey finds the one key of a gRPC call among the places that can
// name it: a call option, the idempotency-key metadata, a request field.
//
// It owns that the places agree and that none is empty. Whether a key is within
// the limits of one is judged by the service, once.
package callkey

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/methodoptions"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// Metadata is the name that carries a key. The name is the IETF draft's
// (draft-ietf-httpapi-idempotency-key-header); its quoting is not: a gRPC key is
// the value's bytes as they came.
const Metadata = "idempotency-key"

// Option is the call option that names the key. A client without an interceptor
// that looks for it ignores it.
type Option struct {
	grpc.EmptyCallOption
	Key string
}

// FromOptions gives the keys that call options name.
func FromOptions(options []grpc.CallOption) []string {
	var keys []string
	for _, o := range options {
		if named, ok := o.(Option); ok {
			keys = append(keys, named.Key)
		}
	}
	return keys
}

// ReadField gives what request's field name holds, as a slice of one, or none
// where it is unset. A field with presence that was set to "" holds "". It is an
// error where request is no message with such a key field, as methodoptions says.
func ReadField(request any, name string) ([]string, error) {
	m, fd, err := find(request, name)
	if err != nil || !m.Has(fd) {
		return nil, err
	}
	return []string{m.Get(fd).String()}, nil
}

// WithField gives request with key in the field name, for which ReadField gave no
// error: request itself where it is there already, else a deep copy, since the
// request is its maker's.
func WithField(request any, name, key string) any {
	m, fd, err := find(request, name)
	if err != nil || m.Get(fd).String() == key {
		return request
	}
	copied := proto.Clone(m.Interface())
	copied.ProtoReflect().Set(fd, protoreflect.ValueOfString(key))
	return copied
}

// WithoutField gives a deep copy of request with the field name unset, for which
// ReadField gave no error.
func WithoutField(request proto.Message, name string) proto.Message {
	copied := proto.Clone(request)
	if m, fd, err := find(copied, name); err == nil {
		m.Clear(fd)
	}
	return copied
}

// Printable says whether metadata can carry key as it is: gRPC's rule for values
// of names that do not end in "-bin".
func Printable(key string) bool {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

func find(request any, name string) (protoreflect.Message, protoreflect.FieldDescriptor, error) {
	message, ok := request.(proto.Message)
	if !ok || !message.ProtoReflect().IsValid() {
		return nil, nil, fmt.Errorf("the request is a %T, which holds no message", request)
	}
	m := message.ProtoReflect()
	fd, err := methodoptions.KeyField(m.Descriptor(), name)
	return m, fd, err
}

// Named is the keys that one place names.
type Named struct {
	// Place is how a refusal calls it.
	Place string
	Keys  []string
}

// Agree gives the key that the places name, and false where none names any. Two
// that differ, one named empty, and metadata sent twice, even if equal, are
// refused with an error that wire turned from ErrInvalidRequest, about operation.
// No error holds a key.
func Agree(operation string, places ...Named) (key string, named bool, err error) {
	first := ""
	for _, place := range places {
		if place.Place == Metadata && len(place.Keys) > 1 {
			return "", false, Refuse(operation, place.Place, "is sent more than once")
		}
		for _, k := range place.Keys {
			switch {
			case k == "":
				return "", false, Refuse(operation, place.Place, "is empty")
			case !utf8.ValidString(k):
				// It cannot travel to the service, which judges all else.
				return "", false, Refuse(operation, place.Place, "is not valid UTF-8")
			case !named:
				key, named, first = k, true, place.Place
			case k != key && place.Place == first:
				return "", false, Refuse(operation, place.Place, "is given twice, and differs")
			case k != key:
				return "", false, Refuse(operation, place.Place, "is another key than "+first)
			}
		}
	}
	return key, named, nil
}

// Refuse gives INVALID_ARGUMENT with reason INVALID_REQUEST about operation.
func Refuse(operation, field, description string) error {
	invalid, _ := oncekeeper.SentinelOf(oncekeeper.ErrInvalidRequest)
	return wire.FromError(wire.Status(invalid, operation, wire.Details{
		Violations: []wire.FieldViolation{{Field: field, Description: description}},
	}).Err(), nil)
}
