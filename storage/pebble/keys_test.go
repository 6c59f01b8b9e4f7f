package pebble

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage"
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

// FuzzIndexEntriesAreInOrderOfTheirMomentsAndPointBack: of moments since 1970, as
// every store's clock has them.
func FuzzIndexEntriesAreInOrderOfTheirMomentsAndPointBack(f *testing.F) {
	f.Add(int64(0), "a", "b", "c", int64(1), "a", "b", "c")
	f.Add(int64(255), "a", "b\x00", "c", int64(256), "a", "b", "\x00c")
	f.Add(int64(7), "\xff", "", "", int64(7), "\xff\x00", "", "")
	f.Add(int64(1)<<62, "t", "o", "1", int64(1)<<32, "t", "o", "2")
	f.Fuzz(func(t *testing.T, at1 int64, t1, o1, i1 string, at2 int64, t2, o2, i2 string) {
		if at1 < 0 || at2 < 0 {
			return
		}
		a, b := oncekeeper.Key{Tenant: t1, Operation: o1, ID: i1}, oncekeeper.Key{Tenant: t2, Operation: o2, ID: i2}
		ea, eb := indexKey(spaceExpiry, oncekeeper.Instant(at1), a), indexKey(spaceExpiry, oncekeeper.Instant(at2), b)
		if got, err := keyOfIndex(ea); err != nil || got != a {
			t.Fatalf("an entry of %q points to %q, %v", a, got, err)
		}
		want := cmp.Or(cmp.Compare(at1, at2), cmp.Compare(t1, t2), cmp.Compare(o1, o2), cmp.Compare(i1, i2))
		if got := bytes.Compare(ea, eb); got != want {
			t.Fatalf("%d of %q and %d of %q compare %d, their entries %d", at1, a, at2, b, want, got)
		}
	})
}

// FuzzAListingReadsWhatItSelectsAndNothingElse: a listing by key that names a
// tenant, or more, has bounds within which is just what it names.
func FuzzAListingReadsWhatItSelectsAndNothingElse(f *testing.F) {
	f.Add("a", "b", "c", "a", "b", "c")
	f.Add("a", "b", "cd", "a", "b", "c")
	f.Add("ab", "b", "c", "a", "", "")
	f.Add("a", "b\x00", "c", "a", "b", "")
	f.Add("a", "b", "\xff\xff", "a", "b", "\xff")
	f.Add("a", "b", "\x00", "a", "b", "\x00\xff")
	f.Fuzz(func(t *testing.T, tenant, operation, id, ofTenant, ofOperation, prefix string) {
		if ofTenant == "" {
			return // reads them all
		}
		if ofOperation == "" {
			prefix = "" // judged record by record
		}
		bounds, err := listBounds(storage.ListQuery{Order: storage.ByKey, Tenant: ofTenant, Operation: ofOperation, IDPrefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		want := tenant == ofTenant && (ofOperation == "" || operation == ofOperation) && strings.HasPrefix(id, prefix)
		at := recordKey(oncekeeper.Key{Tenant: tenant, Operation: operation, ID: id})
		if got := bytes.Compare(bounds.LowerBound, at) <= 0 && bytes.Compare(at, bounds.UpperBound) < 0; got != want {
			t.Fatalf("a listing of %q, %q, %q reads %q, %q, %q: %t, want %t", ofTenant, ofOperation, prefix, tenant, operation, id, got, want)
		}
	})
}

// FuzzAPageTokenIsAPlaceOfItsListingOrRefused: whatever a caller sends, no listing
// reads outside of what it selects.
func FuzzAPageTokenIsAPlaceOfItsListingOrRefused(f *testing.F) {
	inside := recordKey(oncekeeper.Key{Tenant: "a", Operation: "b", ID: "c"})
	f.Add(base64.RawURLEncoding.EncodeToString(inside), "a", false)
	f.Add(base64.RawURLEncoding.EncodeToString(inside), "other", false)
	f.Add(base64.RawURLEncoding.EncodeToString(inside), "", true)
	f.Add(base64.RawURLEncoding.EncodeToString(indexKey(spacePending, 7, oncekeeper.Key{Tenant: "a", Operation: "b", ID: "c"})), "a", true)
	f.Add(base64.RawURLEncoding.EncodeToString(metaClock), "", false)
	f.Add("cg", "", false)
	f.Add("!", "a", true)
	f.Fuzz(func(t *testing.T, token, tenant string, byAge bool) {
		q := storage.ListQuery{Tenant: tenant, Order: storage.ByKey}
		if byAge {
			q.Order = storage.ByAge
		}
		whole, err := listBounds(q)
		if err != nil {
			t.Fatal(err)
		}
		q.After = token
		got, err := listBounds(q)
		if err != nil {
			if !errors.Is(err, oncekeeper.ErrInvalidRequest) || strings.Contains(err.Error(), token) && len(token) > 12 {
				t.Fatalf("it is refused with %v, want ErrInvalidRequest and nothing of the token", err)
			}
			return
		}
		if bytes.Compare(got.LowerBound, whole.LowerBound) < 0 || !bytes.Equal(got.UpperBound, whole.UpperBound) {
			t.Fatalf("%q reads from %q to %q, outside of %q to %q", token, got.LowerBound, got.UpperBound, whole.LowerBound, whole.UpperBound)
		}
	})
}
