package client

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
)

// same says whether b, which is a decoded from its own JSON, tells what a does.
// It is stricter than equal JSON, which has lost what it lost on both sides, and
// less so than reflect.DeepEqual: nil and empty are one, types that encode
// themselves (a time.Time) are compared as they are encoded, and a number in an
// interface may come back as a float64 of its value. Both are of one type.
//
// It ends, since b is a tree: it was decoded.
func same(a, b reflect.Value) bool {
	if v, ok := encodesItself(a); ok {
		w, ok := encodesItself(b)
		return ok && sameJSON(v, w) && (a.Kind() != reflect.Struct || sameFields(a, b, false))
	}
	switch a.Kind() {
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return a.Uint() == b.Uint()
	case reflect.Float32, reflect.Float64:
		return a.Float() == b.Float()
	case reflect.String:
		return a.String() == b.String()
	case reflect.Struct:
		return sameFields(a, b, true)
	case reflect.Array, reflect.Slice:
		return sameItems(a, b)
	case reflect.Map:
		return sameEntries(a, b)
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || sameDynamic(a.Elem(), b.Elem()))
	default: // functions, channels: JSON has none of them
		return a.IsZero() && b.IsZero()
	}
}

// encodesItself gives v as a value of which JSON knows nothing but what its own
// method says.
func encodesItself(v reflect.Value) (any, bool) {
	if !v.CanInterface() || v.Kind() == reflect.Interface || (v.Kind() == reflect.Pointer && v.IsNil()) {
		return nil, false
	}
	for _, m := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if v.Type().Implements(m) {
			return v.Interface(), true
		}
		if v.CanAddr() && v.Addr().Type().Implements(m) {
			return v.Addr().Interface(), true
		}
	}
	return nil, false
}

func sameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// sameFields compares the exported fields, or all: one that JSON leaves out must
// have been empty. What encodes itself may keep what it likes unexported.
func sameFields(a, b reflect.Value, all bool) bool {
	for i := range a.NumField() {
		if (all || a.Type().Field(i).IsExported()) && !same(a.Field(i), b.Field(i)) {
			return false
		}
	}
	return true
}

func sameItems(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	if a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Uint8 {
		return bytes.Equal(a.Bytes(), b.Bytes())
	}
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

func sameEntries(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, k := range a.MapKeys() {
		if w := b.MapIndex(k); !w.IsValid() || !same(a.MapIndex(k), w) {
			return false
		}
	}
	return true
}

// sameDynamic compares what two interfaces hold.
func sameDynamic(a, b reflect.Value) bool {
	if a.Type() == b.Type() {
		return same(a, b)
	}
	number := a.CanInt() || a.CanUint() || a.CanFloat()
	return number && b.Kind() == reflect.Float64 && a.CanInterface() && b.CanInterface() && sameJSON(a.Interface(), b.Interface())
}
