package pebble

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/oncekeeper/oncekeeper"
)

func FuzzKeysEncodeInOrderAndBack(f *testing.F) {
	f.Add("a", "b", "c", "a", "b\x00", "c")
	f.Add("a", "bc", "d", "ab", "c", "d")
	f.Add("a\x00", "\x01b", "", "a", "\x00\x01b", "")
	f.Add("\xff", "\xff\xff", "é", "\xff", "\xff", "\xffé")
	f.Fuzz(func(t *testing.T, t1, o1, i1, t2, o2, i2 string) {
		a, b := oncekeeper.Key{Tenant: t1, Operation: o1, ID: i1}, oncekeeper.Key{Tenant: t2, Operation: o2, ID: i2}
		ea, eb := recordKey(a), recordKey(b)
		if got, err := decodeKey(ea[1:]); err != nil || got != a {
			t.Fatalf("%q came back as %q, %v", a, got, err)
		}
		want := cmp.Or(cmp.Compare(t1, t2), cmp.Compare(o1, o2), cmp.Compare(i1, i2))
		if got := bytes.Compare(ea, eb); got != want {
			t.Fatalf("%q and %q compare %d, their encodings %d", a, b, want, got)
		}
	})
}

func FuzzDecodingAKeyNeverPanics(f *testing.F) {
	f.Add([]byte("a\x00\x01b\x00\x01c\x00\x01"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := decodeKey(data)
		if err == nil && !bytes.Equal(appendKey(nil, key), data) {
			t.Fatalf("%x decodes to %q, which encodes otherwise", data, key)
		}
		_, _ = keyOfIndex(data)
	})
}
