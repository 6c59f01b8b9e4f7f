package fingerprint

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unknownRecord is one record of a message that its descriptor does not know.
// Value is all after the tag; of a group, what is inside.
type unknownRecord struct {
	number protowire.Number
	typ    protowire.Type
	value  []byte
}

// pushRecords splits raw into records, sorted by number and then wire type, of
// one kind as they came. More order than that is lost in some languages: Java
// keeps unknown fields by number and wire type.
func (w *protoWriter) pushRecords(raw []byte) error {
	base := len(w.records)
	for len(raw) > 0 {
		number, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return malformed(n)
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(number, typ, raw)
		if size < 0 {
			return malformed(size)
		}
		value := raw[:size]
		if typ == protowire.StartGroupType {
			value, _ = protowire.ConsumeGroup(number, raw)
		}
		w.records = append(w.records, unknownRecord{number, typ, value})
		raw = raw[size:]
	}
	slices.SortStableFunc(w.records[base:], func(a, b unknownRecord) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.typ, b.typ))
	})
	return nil
}

func malformed(n int) error {
	return fmt.Errorf("%w: unknown fields: %s", ErrMessage, protowire.ParseError(n))
}

// record appends one unknown record, its varints as short as they can be. Bytes
// stay as they came: whether they are a message, nobody here knows.
func (w *protoWriter) record(dst []byte, r unknownRecord, depth int) ([]byte, error) {
	dst = protowire.AppendTag(dst, r.number, r.typ)
	switch r.typ {
	case protowire.VarintType:
		v, _ := protowire.ConsumeVarint(r.value)
		return protowire.AppendVarint(dst, v), nil
	case protowire.BytesType:
		v, _ := protowire.ConsumeBytes(r.value)
		return protowire.AppendBytes(dst, v), nil
	case protowire.StartGroupType:
		dst, err := w.group(dst, r.value, depth+1)
		if err != nil {
			return nil, err
		}
		return protowire.AppendTag(dst, r.number, protowire.EndGroupType), nil
	default:
		return append(dst, r.value...), nil
	}
}

func (w *protoWriter) group(dst, inside []byte, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	base := len(w.records)
	if err := w.pushRecords(inside); err != nil {
		return nil, err
	}
	var err error
	for i, end := base, len(w.records); i < end; i++ {
		if dst, err = w.record(dst, w.records[i], depth); err != nil {
			return nil, err
		}
	}
	w.records = cut(w.records, base)
	return dst, nil
}

// anyContent is the field of google.protobuf.Any that holds its content, or nil
// for any other message.
func anyContent(desc protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if desc.FullName() != "google.protobuf.Any" {
		return nil
	}
	url, value := desc.Fields().ByNumber(1), desc.Fields().ByNumber(2)
	if url == nil || url.Kind() != protoreflect.StringKind || url.IsList() ||
		value == nil || value.Kind() != protoreflect.BytesKind || value.IsList() {
		return nil
	}
	return value
}

// any appends the content of an Any, canonical where its type is found and the
// bytes are such a message, and else as it came. Canonical, because a client that
// makes its request anew for a retry packs it anew, and map entries then come in
// another order.
func (w *protoWriter) any(dst []byte, m protoreflect.Message, field knownField, depth int) ([]byte, error) {
	raw := field.value.Bytes()
	url := m.Get(m.Descriptor().Fields().ByNumber(1)).String()
	content := w.unpack(url, raw)
	if content == nil {
		dst = protowire.AppendTag(dst, field.desc.Number(), protowire.BytesType)
		return protowire.AppendBytes(dst, raw), nil
	}
	start := len(dst)
	dst = protowire.AppendTag(dst, field.desc.Number(), protowire.BytesType)
	dst, at := openLength(dst)
	dst, err := w.message(dst, content, nil, depth+1)
	if err != nil {
		return nil, err
	}
	if len(dst) == at+1 { // Nothing in it: as an empty value, left out.
		return dst[:start], nil
	}
	return closeLength(dst, at), nil
}

// unpack parses the content of an Any; nil where that cannot be done. A panic of
// the parser is one such case: that of protobuf-go 1.36 for dynamic messages
// panics on a map entry whose key comes twice, the second time in another wire
// type, and the bytes are a caller's.
func (w *protoWriter) unpack(url string, raw []byte) (content protoreflect.Message) {
	defer func() {
		if recover() != nil {
			content = nil
		}
	}()
	typ, err := w.resolver.FindMessageByURL(url)
	if err != nil {
		return nil
	}
	content = typ.New()
	options := proto.UnmarshalOptions{AllowPartial: true, Resolver: w.resolver}
	if options.Unmarshal(raw, content.Interface()) != nil {
		return nil
	}
	return content
}
