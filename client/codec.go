package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Content types of what Do keeps.
const (
	ContentTypeJSON  = "application/json"
	ContentTypeBytes = "application/octet-stream"
	// TypeURLPrefix and a message's full name are the content type of a protobuf
	// message in binary.
	TypeURLPrefix = "type.googleapis.com/"
)

// Codec turns a function's value into the body that is kept, and back.
type Codec[T any] interface {
	// Encode gives the body and its content type, up to
	// oncekeeper.MaxContentTypeBytes.
	Encode(T) (body []byte, contentType string, err error)
	// Decode refuses a content type that is not T's.
	Decode(body []byte, contentType string) (T, error)
}

// DefaultCodec keeps a proto.Message in binary under its type URL, []byte as it
// is, and anything else as JSON. Where T is an interface of messages, a replay is
// found by its type URL among the linked ones.
//
// What JSON would give back as something else is refused and not kept: text that
// is not UTF-8 (use []byte), fields that JSON leaves out and that are not empty,
// in an interface an integer beyond 2^53 or anything that is not of JSON's own
// types.
func DefaultCodec[T any]() Codec[T] {
	t := reflect.TypeFor[T]()
	switch {
	case t.Implements(reflect.TypeFor[proto.Message]()):
		return protoCodec[T]{}
	case t == reflect.TypeFor[[]byte]():
		return bytesCodec[T]{}
	default:
		return jsonCodec[T]{}
	}
}

type protoCodec[T any] struct{}

func (protoCodec[T]) Encode(v T) ([]byte, string, error) {
	m, ok := any(v).(proto.Message)
	if !ok {
		return nil, "", fmt.Errorf("a nil %v has no message type", reflect.TypeFor[T]())
	}
	body, err := proto.Marshal(m)
	return body, TypeURLPrefix + string(m.ProtoReflect().Descriptor().FullName()), err
}

func (protoCodec[T]) Decode(body []byte, contentType string) (T, error) {
	var none T
	m, err := newMessage(none, contentType)
	if err != nil {
		return none, err
	}
	v, ok := m.(T)
	if !ok {
		return none, unfit[T](contentType)
	}
	return v, proto.Unmarshal(body, m)
}

// newMessage makes an empty message of the type of none, or where that is an
// interface, of what contentType names.
func newMessage(none any, contentType string) (proto.Message, error) {
	name := contentType[strings.LastIndexByte(contentType, '/')+1:]
	if typed, ok := none.(proto.Message); ok {
		kind := typed.ProtoReflect().Type()
		if want := string(kind.Descriptor().FullName()); name != want {
			return nil, fmt.Errorf("it is %q, not a %s", contentType, want)
		}
		return kind.New().Interface(), nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(contentType)
	if err != nil {
		return nil, fmt.Errorf("it is %q: %w", contentType, err)
	}
	return kind.New().Interface(), nil
}

type bytesCodec[T any] struct{}

func (bytesCodec[T]) Encode(v T) ([]byte, string, error) {
	return any(v).([]byte), ContentTypeBytes, nil
}

func (bytesCodec[T]) Decode(body []byte, contentType string) (T, error) {
	if contentType != ContentTypeBytes {
		var none T
		return none, unfit[T](contentType)
	}
	return any(body).(T), nil
}

type jsonCodec[T any] struct{}

func (j jsonCodec[T]) Encode(v T) ([]byte, string, error) {
	_, body, err := j.keep(v)
	return body, ContentTypeJSON, err
}

// keep gives v's body and what a replay makes of it, or an error where that is
// not what v was.
func (j jsonCodec[T]) keep(v T) (replayed T, body []byte, err error) {
	if body, err = json.Marshal(v); err != nil {
		return replayed, nil, err
	}
	if replayed, err = j.Decode(body, ContentTypeJSON); err != nil {
		return replayed, nil, fmt.Errorf("it does not come back from JSON: %w", err)
	}
	if !same(reflect.ValueOf(&v).Elem(), reflect.ValueOf(&replayed).Elem()) {
		return replayed, nil, fmt.Errorf("a %T is another one when it comes back from JSON", v)
	}
	return replayed, body, nil
}

func (jsonCodec[T]) Decode(body []byte, contentType string) (T, error) {
	var v T
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != ContentTypeJSON {
		return v, unfit[T](contentType)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func unfit[T any](contentType string) error {
	return fmt.Errorf("it is %q, not a %v", contentType, reflect.TypeFor[T]())
}
