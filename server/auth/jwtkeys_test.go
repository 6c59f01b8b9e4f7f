package auth_test

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/oncekeeper/oncekeeper/server/auth"
)

// issued is an issuer of one key, and claims that it would sign.
func issued(t *testing.T) (auth.Trust, signer, map[string]any) {
	t.Helper()
	ours := newSigner(t, "k1")
	issuer := &auth.Issuer{Name: "i", Audience: "a", TenantClaim: "t"}
	if _, err := issuer.UseKeys(keySet(t, ours.public())); err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": "i", "aud": "a", "sub": "s", "t": "acme", "exp": now.Add(time.Hour).Unix()}
	return auth.Trust{Issuer: issuer, Principals: &auth.Set{}}, ours, claims
}

func identifiedBy(t *testing.T, trust auth.Trust, token string, at time.Time) error {
	t.Helper()
	_, err := trust.Identify(showing(t.Context(), "Bearer "+token), at)
	return err
}

// What everybody knows of a key, taken for a secret, signs nothing.
func TestAPublicKeyIsNoSecret(t *testing.T) {
	trust, ours, claims := issued(t)
	der, err := x509.MarshalPKIXPublicKey(ours.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string][]byte{"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})} {
		for _, algorithm := range []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512} {
			err := identifiedBy(t, trust, signs(t, algorithm, secret, "k1", claims), now)
			if err == nil || !strings.Contains(err.Error(), "algorithm that is not taken") {
				t.Errorf("%s with the key's %s: %v", algorithm, name, err)
			}
		}
	}
}

// A token that was good is not judged anew, and still ends: by its own end, and with
// the key that signed it.
func TestATokenThatWasJudgedEndsAllTheSame(t *testing.T) {
	trust, ours, claims := issued(t)
	token := signs(t, jose.ES256, ours.key, "k1", claims)
	for range 2 {
		if err := identifiedBy(t, trust, token, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := identifiedBy(t, trust, token, now.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("at its end: %v", err)
	}
	if err := identifiedBy(t, trust, token[:len(token)-4]+"AAAA", now); err == nil {
		t.Error("one that differs in its signature is taken for it")
	}
	// The same kid, another key: as an issuer rotates whose key was stolen.
	if _, err := trust.Issuer.UseKeys(keySet(t, newSigner(t, "k1").public())); err != nil {
		t.Fatal(err)
	}
	if err := identifiedBy(t, trust, token, now); err == nil || !strings.Contains(err.Error(), "signature is not by the key") {
		t.Errorf("once its key is another: %v", err)
	}
}

func TestATokenOfAnUnknownKeyTellsThatKeysMayHaveChanged(t *testing.T) {
	trust, ours, claims := issued(t)
	told := 0
	trust.Issuer.UnknownKey = func() { told++ }
	for _, c := range []struct {
		id   string
		want int
	}{{"k1", 0}, {"k2", 1}, {"", 1}, {"k1", 1}} {
		_ = identifiedBy(t, trust, signs(t, jose.ES256, ours.key, c.id, claims), now)
		if told != c.want {
			t.Errorf("after a token by kid %q it was told %d times, want %d", c.id, told, c.want)
		}
	}
}
