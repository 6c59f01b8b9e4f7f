package auth_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func parsed(t *testing.T, text string) *auth.Set {
	t.Helper()
	set, err := auth.Parse("principals.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func showing(ctx context.Context, authorization ...string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.MD{"authorization": authorization})
}

func identified(t *testing.T, set *auth.Set, token string) *auth.Principal {
	t.Helper()
	p, err := auth.Trust{Principals: set}.Identify(showing(t.Context(), "Bearer "+token), now)
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	return p
}

// connected gives a call on a connection that was begun with a certificate.
func connected(t *testing.T, leaf *x509.Certificate, verified bool) context.Context {
	root := &x509.Certificate{NotAfter: now.Add(time.Hour)}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf, root}}
	if verified {
		state.VerifiedChains = [][]*x509.Certificate{{leaf, root}}
	}
	return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
}

func named(names ...string) *x509.Certificate {
	cert := &x509.Certificate{NotAfter: now.Add(time.Minute)}
	for _, name := range names {
		if uri, err := url.Parse(name); err == nil && uri.Scheme != "" {
			cert.URIs = append(cert.URIs, uri)
		} else {
			cert.DNSNames = append(cert.DNSNames, name)
		}
	}
	return cert
}

const token = "ok_a-secret-that-nobody-prints"

func TestWhoeverShowsACredentialIsKnown(t *testing.T) {
	set := parsed(t, `principals:
  - name: shop
    role: caller
    tenant: acme
    token_sha256: ["`+auth.TokenDigest("ok_next")+`", "`+auth.TokenDigest(token)+`"]
    certificate: [spiffe://example/shop, Shop.example]
    expires: 2030-01-02T03:04:06Z
  - {name: second, role: operator, tenant: acme, certificate: second.example}
`)
	untrusted := func(*x509.Certificate) bool { return false }
	expired := named("shop.example")
	expired.NotAfter = now.Add(-time.Second)
	for name, c := range map[string]struct {
		ctx   context.Context
		now   time.Time
		roots func(*x509.Certificate) bool
		want  string // a name, or why not
	}{
		"a token":                               {ctx: showing(t.Context(), "Bearer "+token), want: "shop"},
		"its second token":                      {ctx: showing(t.Context(), "bearer ok_next"), want: "shop"},
		"a URI":                                 {ctx: connected(t, named("spiffe://example/shop"), true), want: "shop"},
		"a DNS name":                            {ctx: connected(t, named("SHOP.example"), true), want: "shop"},
		"the second of two names":               {ctx: connected(t, named("x.example", "second.example"), true), want: "second"},
		"names of two":                          {ctx: connected(t, named("second.example", "shop.example"), true), want: "shop"},
		"a token beside another's certificate":  {ctx: showing(connected(t, named("second.example"), true), "Bearer "+token), want: "shop"},
		"a bad token beside a good certificate": {ctx: showing(connected(t, named("second.example"), true), "Bearer x"), want: "no principal's"},
		"another token":                         {ctx: showing(t.Context(), "Bearer "+token+"x"), want: "no principal's"},
		"the digest itself":                     {ctx: showing(t.Context(), "Bearer "+auth.TokenDigest(token)), want: "no principal's"},
		"another scheme":                        {ctx: showing(t.Context(), "Basic "+token), want: "not one bearer token"},
		"no token":                              {ctx: showing(t.Context(), "Bearer "), want: "not one bearer token"},
		"two tokens":                            {ctx: showing(t.Context(), "Bearer "+token, "Bearer "+token), want: "not one bearer token"},
		"nothing":                               {ctx: t.Context(), want: "neither"},
		"a certificate that nobody verified":    {ctx: connected(t, named("shop.example"), false), want: "neither"},
		"another name":                          {ctx: connected(t, named("evil.example", "spiffe://example/shop/x"), true), want: "no principal has a name"},
		"a star":                                {ctx: connected(t, named("*.example"), true), want: "no principal has a name"},
		"a certificate that expired":            {ctx: connected(t, expired, true), want: "expired at 2030-01-02T03:04:04Z"},
		"one whose root is trusted no more":     {ctx: connected(t, named("shop.example"), true), roots: untrusted, want: "trusted no more"},
		"a principal that expired":              {ctx: showing(t.Context(), "Bearer "+token), now: now.Add(time.Second), want: "the principal shop expired at 2030-01-02T03:04:06Z"},
	} {
		at := now
		if !c.now.IsZero() {
			at = c.now
		}
		p, err := auth.Trust{Principals: set, TrustsRoot: c.roots}.Identify(c.ctx, at)
		switch {
		case err == nil && p.Name() != c.want:
			t.Errorf("%s: got %s, want %s", name, p.Name(), c.want)
		case err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, oncekeeper.ErrUnauthenticated) || p != nil):
			t.Errorf("%s: got %v, %v; want %s", name, p.Name(), err, c.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error tells the token: %v", name, err)
		}
	}
}

func TestTokensAreNewAndLong(t *testing.T) {
	a, b := auth.NewToken(), auth.NewToken()
	if a == b || !strings.HasPrefix(a, "ok_") || len(a) != len("ok_")+43 {
		t.Errorf("two tokens are %q and %q", a, b)
	}
}

func TestASetThatIsExchangedHoldsAtOnce(t *testing.T) {
	of := func(name string) *auth.Set {
		return parsed(t, "principals:\n  - {name: "+name+", role: caller, tenant: acme, token_sha256: "+auth.TokenDigest(token)+"}\n")
	}
	live := auth.NewLive(of("one"))
	trust := auth.Trust{Principals: live}
	if p, err := trust.Identify(showing(t.Context(), "Bearer "+token), now); err != nil || p.Name() != "one" {
		t.Fatalf("got %v, %v", p.Name(), err)
	}
	live.Use(parsed(t, "principals:\n  - {name: two, role: caller, tenant: acme, certificate: two.example}\n"))
	if p, err := trust.Identify(showing(t.Context(), "Bearer "+token), now); err == nil {
		t.Fatalf("a token that was revoked is still %s's", p.Name())
	}
	if got, want := live.Current().Since(of("one")), "one went, two came"; got != want {
		t.Errorf("the change is told as %q, want %q", got, want)
	}
}
