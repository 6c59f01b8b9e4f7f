package server

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// aPart is what a part of a key may be, said once more: no control character, and
// at neither end what Unicode separates words by.
var aPart = regexp.MustCompile(`^[^\p{Cc}\p{Z}](?:[^\p{Cc}]*[^\p{Cc}\p{Z}])?$`)

// FuzzAKeyIsTakenAsItCameOrItsFaultyPartsAreNamed: and a refusal repeats nothing of
// the key.
func FuzzAKeyIsTakenAsItCameOrItsFaultyPartsAreNamed(f *testing.F) {
	for _, part := range []string{"", "k", " k", "k\u00a0", "\u3000k", "a\x00b", "caf\xc3", "\u0085", "\u200b", "\ufeffk", "\u2028", "e\u0301", "k\n"} {
		f.Add(part, "o", "1")
		f.Add("t", part, part)
	}
	f.Add(strings.Repeat("t", 128), strings.Repeat("o", 256), strings.Repeat("i", 255))
	f.Add(strings.Repeat("t", 129), strings.Repeat("o", 257), strings.Repeat("\u00e9", 128))
	f.Fuzz(func(t *testing.T, tenant, operation, id string) {
		var c fields
		got := c.key("key", &pb.Key{Tenant: tenant, Operation: operation, Id: id})
		faulty := map[string]bool{}
		for _, v := range c.violations {
			faulty[v.Field] = true
		}
		if len(faulty) != len(c.violations) {
			t.Fatalf("a part is refused twice: %v", c.violations)
		}
		for field, part := range map[string]struct {
			value string
			most  int
		}{"key.tenant": {tenant, 128}, "key.operation": {operation, 256}, "key.id": {id, 255}} {
			want := len(part.value) <= part.most && utf8.ValidString(part.value) && aPart.MatchString(part.value)
			if faulty[field] == want {
				t.Errorf("%s %q is refused: %t, want %t", field, part.value, faulty[field], !want)
			}
			if len(part.value) > 24 && faulty[field] && strings.Contains(c.err().Error(), part.value) {
				t.Errorf("the refusal repeats %s: %v", field, c.err())
			}
		}
		if want := (oncekeeper.Key{Tenant: tenant, Operation: operation, ID: id}); len(faulty) == 0 && (got != want || wire.KeyFromProto(wire.KeyToProto(got)) != want) {
			t.Errorf("%q is taken as %q", want, got)
		}
	})
}
