package downstream

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// The vectors were made by another program in another language: see
// docs/any-language.md. A published one never changes.
func TestKeysAreThePublishedOnes(t *testing.T) {
	file, err := os.ReadFile("../../attach/testdata/derived_keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var published struct {
		Vectors []struct {
			Name, Tenant, Operation, ID, Method string
			Step                                *string
			Scheme                              string `json:"fingerprint_scheme"`
			Fingerprint                         string
			Occurrence                          int
			Key                                 string
		}
	}
	if err := json.Unmarshal(file, &published); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, v := range published.Vectors {
		parent := oncekeeper.Key{Tenant: v.Tenant, Operation: v.Operation, ID: v.ID}
		var got string
		if v.Step != nil {
			got = NamedKey(parent, v.Method, *v.Step)
		} else {
			digest, err := hex.DecodeString(v.Fingerprint)
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			got = CountedKey(parent, v.Method, fingerprint.Fingerprint{Scheme: v.Scheme, Digest: digest}, v.Occurrence)
		}
		if got != v.Key {
			t.Errorf("%s: the key is %s; published is %s", v.Name, got, v.Key)
		}
		if other, twice := seen[v.Key]; twice {
			t.Errorf("%q and %q have one key", v.Name, other)
		}
		seen[v.Key] = v.Name
	}
	if len(seen) < 15 {
		t.Errorf("%d vectors are published, want at least 15", len(seen))
	}
}

var wellFormed = regexp.MustCompile(`^ok1-[0-9a-f]{40}$`)

// call is all that a key is made of.
type call struct {
	parent       oncekeeper.Key
	method, step string
	digest       string
	n            int
}

func (c call) key() string {
	if c.n == 0 {
		return NamedKey(c.parent, c.method, c.step)
	}
	return CountedKey(c.parent, c.method, fingerprint.Fingerprint{Scheme: c.step, Digest: []byte(c.digest)}, c.n)
}

func TestKeysOfCallsThatDifferInAnythingDiffer(t *testing.T) {
	part := rapid.StringMatching(`[a-c/:0-9]{0,4}`) // few letters, so that parts run into each other
	calls := rapid.Custom(func(t *rapid.T) call {
		c := call{
			parent: oncekeeper.Key{Tenant: part.Draw(t, "tenant"), Operation: part.Draw(t, "operation"), ID: part.Draw(t, "id")},
			method: part.Draw(t, "method"), step: part.Draw(t, "step or scheme"), n: rapid.IntRange(0, 12).Draw(t, "n"),
		}
		if c.n > 0 {
			c.digest = part.Draw(t, "digest")
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := calls.Draw(t, "a"), calls.Draw(t, "b")
		if (a.key() == b.key()) != (a == b) {
			t.Errorf("%+v gives %s and %+v gives %s", a, a.key(), b, b.key())
		}
		if !wellFormed.MatchString(a.key()) {
			t.Errorf("the key %s is not %v", a.key(), wellFormed)
		}
	})
}
