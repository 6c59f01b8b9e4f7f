package oncekeeper_test

import (
	"testing"

	"github.com/oncekeeper/oncekeeper"
)

func TestAKeysHashIsItsOwnAndTellsNothing(t *testing.T) {
	seen := map[string]oncekeeper.Key{}
	for _, k := range []oncekeeper.Key{
		{Tenant: "a", Operation: "b", ID: "c"}, {Tenant: "a b", Operation: "c", ID: "d"}, {Tenant: "a", Operation: "b c", ID: "d"},
		{Tenant: "a", Operation: "b", ID: "c d"}, {Tenant: `a" "b`, Operation: "c", ID: "d"}, {Tenant: "a", Operation: `b" "c`, ID: "d"},
	} {
		h := k.Hash()
		if other, ok := seen[h]; ok || len(h) != 12 {
			t.Errorf("%v has the hash %q, as %v", k, h, other)
		}
		seen[h] = k
	}
	if got, want := (oncekeeper.Key{Tenant: "acme", Operation: "pay", ID: "1"}).Hash(), "cc7e92eb7c7e"; got != want {
		t.Errorf("the hash is %s, want %s: logs of two versions must agree", got, want)
	}
}
