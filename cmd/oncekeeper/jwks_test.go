package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// issuing gives a key set, and tokens by it for tenant demo.
func issuing(t *testing.T) (keys string, token func(audience string) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256"}}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), func(audience string) string {
		made, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": "https://id.example", "aud": audience, "sub": "shop", "tenants": "demo", "exp": time.Now().Add(time.Hour).Unix(),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

func TestACallerWithAJWTMayCallForTheTenantsThatItNames(t *testing.T) {
	keys, token := issuing(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, keys)
	address, log := serving(t, "--store", "memory:", "--jwt-jwks", path, "--jwt-issuer", "https://id.example")
	for _, c := range []struct {
		want   string
		token  string
		tenant string
	}{
		{"there is no record", token("oncekeeper"), "demo"},
		{"may not do this", token("oncekeeper"), "other"},
		{"does not know who is asking", token("other"), "demo"},
	} {
		t.Setenv("ONCEKEEPER_TOKEN", c.token)
		if code, _, stderr := command(t, "get", "--address", address, c.tenant, "pay", "1"); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("get exits with %d and says %s, want %q", code, stderr, c.want)
		}
	}
	log.await(t, "calls are refused")
	if said := log.String(); !strings.Contains(said, "for another audience than oncekeeper") || strings.Contains(said, token("other")[:60]) {
		t.Errorf("the log says %s", said)
	}
}

func TestKeysThatCannotBeHadAreToldOnceAndAskedForAgain(t *testing.T) {
	keys, _ := issuing(t)
	var answer atomic.Int64
	answer.Store(http.StatusBadGateway)
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(answer.Load()))
		_, _ = w.Write([]byte(keys))
	}))
	defer from.Close()
	log := &lines{grown: make(chan struct{}, 1)}
	clk := clock.NewManual(epoch)
	issuer := &auth.Issuer{}
	k := newRemoteKeys(from.URL+"?secret=1", from.URL, issuer, slog.New(slog.NewJSONHandler(log, nil)))
	k.clock = clk
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		k.look(ctx)
		k.run(ctx)
	}()
	next := func(d time.Duration) {
		t.Helper()
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := clk.AwaitTimers(patience, 1); err != nil {
			t.Fatal(err)
		}
		clk.Advance(d)
	}
	next(keysAgainAfter)
	next(keysAgainAfter)
	next(0) // both have asked
	answer.Store(http.StatusOK)
	next(keysAgainAfter)
	log.await(t, "the JWKS was read")
	if said := log.String(); strings.Count(said, "the JWKS cannot be had") != 1 || !strings.Contains(said, "it answers 502") || strings.Contains(said, "secret") {
		t.Errorf("the log says %s", said)
	}
	from.Close()
	next(keysEvery)
	next(keysAgainAfter)
	stop()
	<-over
	if said := log.String(); strings.Count(said, "the JWKS cannot be had") != 2 || strings.Contains(said, "secret") {
		t.Errorf("the log says %s", said)
	}
}

func TestKeysAreReadFromWhereNobodyOnTheWayCanChangeThem(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	write(t, bad, `{"keys": "secret"}`)
	const issuer = "https://id.example"
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"go together", []string{"--jwt-jwks", bad}},
		{"go together", []string{"--jwt-issuer", issuer}},
		{"give an https URL", []string{"--jwt-issuer", issuer, "--jwt-jwks", "http://u:secret@id.example/keys?secret"}},
		{"must not be empty", []string{"--jwt-issuer", issuer, "--jwt-jwks", bad, "--jwt-audience", ""}},
		{"no JSON Web Key Set", []string{"--jwt-issuer", issuer, "--jwt-jwks", bad}},
		{"no such file", []string{"--jwt-issuer", issuer, "--jwt-jwks", "nonesuch"}},
	} {
		code, _, stderr := command(t, append([]string{"serve", "--store", "memory:", "--http", "off", "--listen", "127.0.0.1:0"}, c.flags...)...)
		if code == 0 || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%v exits with %d and says %q, want %q", c.flags, code, stderr, c.want)
		}
	}
}
