package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// signer is a key of an issuer's.
type signer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, key}
}

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Use: "sig", Algorithm: "ES256"}
}

func keySet(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signs gives a token with claims.
func signs(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAJWTIsTakenOnlyWhereAllOfItFits(t *testing.T) {
	ours, theirs := newSigner(t, "k1"), newSigner(t, "k1")
	issuer := &auth.Issuer{Name: "https://id.example", Audience: "oncekeeper", TenantClaim: "tenants"}
	trust := auth.Trust{Issuer: issuer, Principals: parsed(t, "principals:\n  - {name: a, role: operator, tenant: '*', certificate: b}\n")}
	good := map[string]any{
		"iss": "https://id.example", "aud": []string{"other", "oncekeeper"}, "sub": "shop", "tenants": []string{"acme", "beta"},
		"exp": now.Add(time.Minute).Unix(), "iat": now.Add(30 * time.Second).Unix(),
	}
	with := func(claim string, value any) map[string]any {
		claims := maps.Clone(good)
		if claims[claim] = value; value == nil {
			delete(claims, claim)
		}
		return claims
	}
	identify := func(token string) (*auth.Principal, error) {
		return trust.Identify(showing(t.Context(), "Bearer "+token), now)
	}
	if _, err := identify(signs(t, jose.ES256, ours.key, "k1", good)); err == nil || !strings.Contains(err.Error(), "no keys") {
		t.Errorf("before any key is known: %v", err)
	}
	if _, err := issuer.UseKeys(keySet(t, ours.public())); err != nil {
		t.Fatal(err)
	}

	p, err := identify(signs(t, jose.ES256, ours.key, "k1", good))
	if err != nil || p.Name() != "jwt:shop" {
		t.Fatalf("a good one is %v's: %v", p.Name(), err)
	}
	for tenant, want := range map[string]bool{"acme": true, "beta": true, "acm": false, "gamma": false} {
		if p.May(pb.IdempotencyService_Begin_FullMethodName, tenant, "pay") != want || p.May(pb.AdminService_DeleteRecord_FullMethodName, tenant, "pay") {
			t.Errorf("about %s it may what it may not, or may not what it may", tenant)
		}
	}
	if one, err := identify(signs(t, jose.ES256, ours.key, "k1", with("tenants", "acme"))); err != nil || one.May(pb.IdempotencyService_Get_FullMethodName, "beta", "pay") {
		t.Errorf("a claim of one tenant: %v, %v", one.Name(), err)
	}

	parts := strings.Split(signs(t, jose.ES256, ours.key, "k1", good), ".")
	other := strings.Split(signs(t, jose.ES256, ours.key, "k1", with("tenants", "other")), ".")
	secret := make([]byte, 32)
	for name, c := range map[string]struct{ token, want string }{
		"another's key under the same kid": {signs(t, jose.ES256, theirs.key, "k1", good), "signature is not by the key"},
		"another kid":                      {signs(t, jose.ES256, ours.key, "k2", good), "of no key of its issuer's"},
		"claims of another's":              {parts[0] + "." + other[1] + "." + parts[2], "signature is not by the key"},
		"a symmetric algorithm":            {signs(t, jose.HS256, secret, "k1", good), "algorithm that is not taken"},
		"no algorithm":                     {"eyJhbGciOiJub25lIn0." + parts[1] + ".", "algorithm that is not taken"},
		"no JWT":                           {"a.secret.c", "malformed"},
		"one that is too long":             {signs(t, jose.ES256, ours.key, "k1", with("x", strings.Repeat("x", 9000))), "more than 8192 bytes"},
		"another issuer":                   {signs(t, jose.ES256, ours.key, "k1", with("iss", "https://evil.example")), "of another issuer than https://id.example"},
		"another audience":                 {signs(t, jose.ES256, ours.key, "k1", with("aud", "other")), "for another audience than oncekeeper"},
		"no audience":                      {signs(t, jose.ES256, ours.key, "k1", with("aud", nil)), "for another audience"},
		"no end":                           {signs(t, jose.ES256, ours.key, "k1", with("exp", nil)), "no exp"},
		"one that is over":                 {signs(t, jose.ES256, ours.key, "k1", with("exp", now.Unix())), "jwt:shop expired at 2030-01-02T03:04:05Z"},
		"one that is not yet":              {signs(t, jose.ES256, ours.key, "k1", with("nbf", now.Add(2*time.Minute).Unix())), "does not hold yet"},
		"no subject":                       {signs(t, jose.ES256, ours.key, "k1", with("sub", nil)), "sub is not"},
		"a subject with a space":           {signs(t, jose.ES256, ours.key, "k1", with("sub", "a b")), "sub is not"},
		"no tenants":                       {signs(t, jose.ES256, ours.key, "k1", with("tenants", nil)), "names no tenants"},
		"an empty list":                    {signs(t, jose.ES256, ours.key, "k1", with("tenants", []string{})), "names 0 tenants"},
		"a star":                           {signs(t, jose.ES256, ours.key, "k1", with("tenants", []string{"acme", "*"})), "has a star"},
		"an empty tenant":                  {signs(t, jose.ES256, ours.key, "k1", with("tenants", "")), "is empty"},
		"numbers":                          {signs(t, jose.ES256, ours.key, "k1", with("tenants", []int{1})), "names no tenants"},
	} {
		p, err := identify(c.token)
		if p != nil || !errors.Is(err, oncekeeper.ErrUnauthenticated) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want %s", name, p.Name(), err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), parts[1])) {
			t.Errorf("%s: the error tells of the token: %v", name, err)
		}
	}
}

func TestABadKeySetIsRefusedAndTheOldKeysStay(t *testing.T) {
	ours := newSigner(t, "k1")
	issuer := &auth.Issuer{Name: "i", Audience: "a", TenantClaim: "t"}
	trust := auth.Trust{Issuer: issuer, Principals: &auth.Set{}}
	token := signs(t, jose.ES256, ours.key, "k1", map[string]any{"iss": "i", "aud": "a", "sub": "s", "t": "acme", "exp": now.Add(time.Hour).Unix()})
	if holds, err := issuer.UseKeys(keySet(t, ours.public())); err != nil || holds != "1 keys" {
		t.Fatalf("%s, %v", holds, err)
	}
	unnamed, encrypting := ours.public(), ours.public()
	unnamed.KeyID, encrypting.Use = "", "enc"
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"no JSON":         {[]byte("<html>secret</html>"), "no JSON Web Key Set"},
		"no keys":         {[]byte(`{"keys":[]}`), "no public key with a kid"},
		"another JSON":    {[]byte(`{}`), "no public key with a kid"},
		"a private key":   {keySet(t, ours.public(), jose.JSONWebKey{Key: ours.key, KeyID: "k2"}), "key 2 is no public key"},
		"a symmetric key": {keySet(t, jose.JSONWebKey{Key: []byte("secret"), KeyID: "k1"}), "key 1 is no public key"},
		"of no use":       {keySet(t, unnamed, encrypting), "no public key with a kid"},
		"one kid twice":   {keySet(t, ours.public(), newSigner(t, "k1").public()), "key 2 has the kid"},
	} {
		if _, err := issuer.UseKeys(c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		if _, err := trust.Identify(showing(t.Context(), "Bearer "+token), now); err != nil {
			t.Errorf("%s: the old keys are gone: %v", name, err)
		}
	}
	if _, err := issuer.UseKeys(keySet(t, newSigner(t, "k2").public())); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Identify(showing(t.Context(), "Bearer "+token), now); err == nil {
		t.Error("a key that was withdrawn still lets in")
	}
}
