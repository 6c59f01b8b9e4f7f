package fingerprint

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// One bit pattern stands for every NaN: positive, quiet, no payload.
const (
	nan32 uint32 = 0x7fc00000
	nan64 uint64 = 0x7ff8000000000000
)

func wireType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

func packable(kind protoreflect.Kind) bool {
	return wireType(kind) != protowire.BytesType && wireType(kind) != protowire.StartGroupType
}

// appendScalar appends a value without its tag. Kind is none of the messages.
func appendScalar(dst []byte, kind protoreflect.Kind, value protoreflect.Value) []byte {
	switch kind {
	case protoreflect.BoolKind:
		return protowire.AppendVarint(dst, protowire.EncodeBool(value.Bool()))
	case protoreflect.EnumKind:
		return protowire.AppendVarint(dst, uint64(int64(value.Enum())))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return protowire.AppendVarint(dst, uint64(value.Int()))
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(value.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return protowire.AppendVarint(dst, value.Uint())
	case protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(dst, uint32(value.Int()))
	case protoreflect.Fixed32Kind:
		return protowire.AppendFixed32(dst, uint32(value.Uint()))
	case protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(dst, uint64(value.Int()))
	case protoreflect.Fixed64Kind:
		return protowire.AppendFixed64(dst, value.Uint())
	case protoreflect.FloatKind:
		return protowire.AppendFixed32(dst, bits32(value.Float()))
	case protoreflect.DoubleKind:
		return protowire.AppendFixed64(dst, bits64(value.Float()))
	case protoreflect.StringKind:
		return protowire.AppendString(dst, value.String())
	default:
		return protowire.AppendBytes(dst, value.Bytes())
	}
}

func bits32(f float64) uint32 {
	if math.IsNaN(f) {
		return nan32
	}
	return math.Float32bits(float32(f))
}

func bits64(f float64) uint64 {
	if math.IsNaN(f) {
		return nan64
	}
	return math.Float64bits(f)
}

// keyOrder sorts map entries: integers by value, false before true, strings by
// their bytes.
func keyOrder(kind protoreflect.Kind) func(a, b mapEntry) int {
	switch kind {
	case protoreflect.StringKind:
		return func(a, b mapEntry) int { return strings.Compare(a.key.String(), b.key.String()) }
	case protoreflect.BoolKind:
		return func(a, b mapEntry) int {
			return cmp.Compare(protowire.EncodeBool(a.key.Bool()), protowire.EncodeBool(b.key.Bool()))
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return func(a, b mapEntry) int { return cmp.Compare(a.key.Uint(), b.key.Uint()) }
	default:
		return func(a, b mapEntry) int { return cmp.Compare(a.key.Int(), b.key.Int()) }
	}
}

// openLength makes room for a length of one byte, and says where. Few contents
// are longer, and for those closeLength moves them.
func openLength(dst []byte) ([]byte, int) {
	return append(dst, 0), len(dst)
}

// closeLength writes the length of all that was appended since openLength.
func closeLength(dst []byte, at int) []byte {
	length := len(dst) - at - 1
	if length < 0x80 {
		dst[at] = byte(length)
		return dst
	}
	var prefix [10]byte
	return slices.Replace(dst, at, at+1, protowire.AppendVarint(prefix[:0], uint64(length))...)
}
