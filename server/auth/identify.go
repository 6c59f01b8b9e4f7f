package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/oncekeeper/oncekeeper"
)

// Trust is how a call shows who makes it.
type Trust struct {
	// Principals who may call.
	Principals Source
	// Issuer of JWTs that callers may show. Default: none.
	Issuer *Issuer
	// TrustsRoot says whether certificates are taken now that a root vouches for, which
	// they were when the connection began. Default: they are.
	TrustsRoot func(root *x509.Certificate) bool
}

// Refusal is why it is not known who calls. It is ErrUnauthenticated, and says
// nothing that is secret.
type Refusal struct {
	// Kind is one of a few: for logs that tell each only now and then.
	Kind string
	Why  string
}

func (e *Refusal) Error() string { return oncekeeper.ErrUnauthenticated.Error() + ": " + e.Why }

// Unwrap gives ErrUnauthenticated.
func (e *Refusal) Unwrap() error { return oncekeeper.ErrUnauthenticated }

func refuse(kind, format string, args ...any) error {
	return &Refusal{Kind: kind, Why: fmt.Sprintf(format, args...)}
}

// Identify gives who makes the call that ctx is of, as things stand at now: on a
// connection that has been open for long, too. A token counts before the
// certificate, and one that is no good is refused although the certificate is.
// Errors: Refusal.
func (t Trust) Identify(ctx context.Context, now time.Time) (*Principal, error) {
	set := t.Principals.Current()
	p, err := t.shown(ctx, set, now)
	if err != nil {
		return nil, err
	}
	if !p.expires.IsZero() && !now.Before(p.expires) {
		return nil, refuse("expired principal", "the principal %s expired at %s", p.name, p.expires.Format(time.RFC3339))
	}
	return p, nil
}

func (t Trust) shown(ctx context.Context, set *Set, now time.Time) (*Principal, error) {
	token, shown, err := bearer(ctx)
	if err != nil {
		return nil, err
	}
	if shown {
		if p := set.byToken(token); p != nil {
			return p, nil
		}
		if t.Issuer != nil && strings.Count(token, ".") == 2 {
			return t.Issuer.principal(token, now)
		}
		return nil, refuse("unknown token", "the bearer token is no principal's")
	}
	cert, err := t.certificate(ctx, now)
	if err != nil {
		return nil, err
	}
	if p := set.byCertificate(cert); p != nil {
		return p, nil
	}
	return nil, refuse("unknown certificate", "no principal has a name of the client's certificate")
}

// bearer gives the token that a call shows.
func bearer(ctx context.Context) (token string, shown bool, err error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", true, refuse("malformed token", "the authorization is not one bearer token")
	}
	return token, true, nil
}

// certificate gives the one that the connection was begun with, if it is still good.
func (t Trust) certificate(ctx context.Context, now time.Time) (*x509.Certificate, error) {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return nil, errNothingShown
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil, errNothingShown
	}
	err := errors.New("no chain")
	for _, chain := range info.State.VerifiedChains {
		if err = t.good(chain, now); err == nil {
			return chain[0], nil
		}
	}
	return nil, err
}

var errNothingShown = refuse("no credential", "the call shows neither a bearer token nor a certificate that was verified")

func (t Trust) good(chain []*x509.Certificate, now time.Time) error {
	for _, cert := range chain {
		if now.After(cert.NotAfter) {
			return refuse("expired certificate", "a certificate of the client's chain expired at %s", cert.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if t.TrustsRoot != nil && !t.TrustsRoot(chain[len(chain)-1]) {
		return refuse("untrusted certificate", "who vouches for the client's certificate is trusted no more")
	}
	return nil
}

// byToken compares with every token there is, in constant time.
func (s *Set) byToken(token string) *Principal {
	sum := sha256.Sum256([]byte(token))
	var found *Principal
	for _, p := range s.all {
		for i := range p.tokens {
			if subtle.ConstantTimeCompare(p.tokens[i][:], sum[:]) == 1 {
				found = p
			}
		}
	}
	return found
}

// byCertificate gives the first principal that one of cert's names is of.
func (s *Set) byCertificate(cert *x509.Certificate) *Principal {
	for _, p := range s.all {
		for _, uri := range cert.URIs {
			if slices.Contains(p.uris, uri.String()) {
				return p
			}
		}
		for _, name := range cert.DNSNames {
			if slices.Contains(p.dns, strings.ToLower(name)) {
				return p
			}
		}
	}
	return nil
}
