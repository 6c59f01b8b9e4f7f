package fingerprint

import (
	"cmp"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoWriter appends the canonical encoding of pb1. What it appends is itself a
// valid encoding of the message, with one choice made wherever protobuf leaves
// several. Its slices are stacks shared by all levels of one message.
type protoWriter struct {
	resolver Resolver
	buffer   []byte
	fields   []knownField
	entries  []mapEntry
	records  []unknownRecord
	// Bound once: a new closure for each message would be an allocation for each.
	pushField func(protoreflect.FieldDescriptor, protoreflect.Value) bool
	pushEntry func(protoreflect.MapKey, protoreflect.Value) bool
}

type knownField struct {
	desc  protoreflect.FieldDescriptor
	value protoreflect.Value
}

type mapEntry struct {
	key   protoreflect.MapKey
	value protoreflect.Value
}

var protoWriters = sync.Pool{New: func() any {
	w := &protoWriter{}
	w.pushField = func(desc protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		w.fields = append(w.fields, knownField{desc, value})
		return true
	}
	w.pushEntry = func(key protoreflect.MapKey, value protoreflect.Value) bool {
		w.entries = append(w.entries, mapEntry{key, value})
		return true
	}
	return w
}}

func newProtoWriter(resolver Resolver) *protoWriter {
	w := protoWriters.Get().(*protoWriter)
	w.resolver = resolver
	return w
}

// maxKept bounds what a pool keeps of one large request, in bytes.
const maxKept = 64 << 10

// free gives the writer back. It must hold on to no message.
func (w *protoWriter) free() {
	if cap(w.buffer) > maxKept || cap(w.fields)+cap(w.entries)+cap(w.records) > maxKept/64 {
		return
	}
	w.resolver = nil
	w.fields = cut(w.fields, 0)
	w.entries = cut(w.entries, 0)
	w.records = cut(w.records, 0)
	protoWriters.Put(w)
}

// cut shortens a stack and forgets what was on it.
func cut[T any](stack []T, length int) []T {
	clear(stack[length:])
	return stack[:length]
}

// message appends the populated and the unknown fields of m, ascending by number,
// of one number the known first.
func (w *protoWriter) message(dst []byte, m protoreflect.Message, ignore *ignored, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	fieldBase, recordBase := len(w.fields), len(w.records)
	m.Range(w.pushField)
	slices.SortFunc(w.fields[fieldBase:], func(a, b knownField) int {
		return cmp.Compare(a.desc.Number(), b.desc.Number())
	})
	if err := w.pushRecords(m.GetUnknown()); err != nil {
		return nil, err
	}
	fieldEnd, recordEnd := len(w.fields), len(w.records)
	content := anyContent(m.Descriptor())

	var err error
	f, r := fieldBase, recordBase
	for f < fieldEnd || r < recordEnd {
		if r == recordEnd || f < fieldEnd && w.fields[f].desc.Number() <= w.records[r].number {
			field := w.fields[f]
			f++
			below := ignore.at(field.desc.Number())
			switch {
			case below.all():
			case content != nil && field.desc.Number() == content.Number():
				dst, err = w.any(dst, m, field, depth)
			default:
				dst, err = w.field(dst, field, below, depth)
			}
		} else {
			record := w.records[r]
			r++
			if !ignore.at(record.number).all() {
				dst, err = w.record(dst, record, depth)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	w.fields, w.records = cut(w.fields, fieldBase), cut(w.records, recordBase)
	return dst, nil
}

func (w *protoWriter) field(dst []byte, field knownField, ignore *ignored, depth int) ([]byte, error) {
	switch desc := field.desc; {
	case desc.IsMap():
		return w.mapField(dst, field, ignore, depth)
	case desc.IsList():
		return w.list(dst, desc, field.value.List(), ignore, depth)
	default:
		return w.element(dst, desc, field.value, ignore, depth)
	}
}

// list packs whatever can be packed, however the field is declared: declaring it
// otherwise later must not change a digest.
func (w *protoWriter) list(dst []byte, desc protoreflect.FieldDescriptor, list protoreflect.List, ignore *ignored, depth int) ([]byte, error) {
	if packable(desc.Kind()) {
		dst = protowire.AppendTag(dst, desc.Number(), protowire.BytesType)
		dst, at := openLength(dst)
		for i := range list.Len() {
			dst = appendScalar(dst, desc.Kind(), list.Get(i))
		}
		return closeLength(dst, at), nil
	}
	var err error
	for i := range list.Len() {
		if dst, err = w.element(dst, desc, list.Get(i), ignore, depth); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// mapField writes each entry as a message of key and value, both always there.
// An entry is no level of its own in the depth.
func (w *protoWriter) mapField(dst []byte, field knownField, ignore *ignored, depth int) ([]byte, error) {
	base := len(w.entries)
	field.value.Map().Range(w.pushEntry)
	end := len(w.entries)
	key, value := field.desc.MapKey(), field.desc.MapValue()
	slices.SortFunc(w.entries[base:], keyOrder(key.Kind()))
	for i := base; i < end; i++ {
		entry := w.entries[i]
		dst = protowire.AppendTag(dst, field.desc.Number(), protowire.BytesType)
		var at int
		dst, at = openLength(dst)
		dst = protowire.AppendTag(dst, key.Number(), wireType(key.Kind()))
		dst = appendScalar(dst, key.Kind(), entry.key.Value())
		var err error
		if dst, err = w.element(dst, value, entry.value, ignore, depth); err != nil {
			return nil, err
		}
		dst = closeLength(dst, at)
	}
	w.entries = cut(w.entries, base)
	return dst, nil
}

func (w *protoWriter) element(dst []byte, desc protoreflect.FieldDescriptor, value protoreflect.Value, ignore *ignored, depth int) ([]byte, error) {
	kind, number := desc.Kind(), desc.Number()
	if desc.Message() == nil {
		dst = protowire.AppendTag(dst, number, wireType(kind))
		return appendScalar(dst, kind, value), nil
	}
	if kind == protoreflect.GroupKind && !desc.ContainingMessage().IsMapEntry() {
		dst = protowire.AppendTag(dst, number, protowire.StartGroupType)
		dst, err := w.message(dst, value.Message(), ignore, depth+1)
		if err != nil {
			return nil, err
		}
		return protowire.AppendTag(dst, number, protowire.EndGroupType), nil
	}
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst, at := openLength(dst)
	dst, err := w.message(dst, value.Message(), ignore, depth+1)
	if err != nil {
		return nil, err
	}
	return closeLength(dst, at), nil
}
