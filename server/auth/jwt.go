package auth

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// Issuer is somebody else who says who calls, by JWTs. Whoever has one is a caller, of
// the tenants that it names; operators are named by the principals file alone. Its
// methods may be called from any goroutine.
type Issuer struct {
	// Name is the "iss" of its tokens, and Audience among their "aud".
	Name, Audience string
	// TenantClaim is the claim that names tenants: a string or a list of strings, each a
	// tenant and no pattern.
	TenantClaim string
	// UnknownKey is told that a token names a key that is not known: the issuer's may
	// have changed. It must not wait for anything. Default: nobody is told.
	UnknownKey func()

	keys atomic.Pointer[issuerKeys]
}

// issuerKeys are keys, and who showed a token that they were found to have signed:
// what was judged by keys that are exchanged is forgotten with them.
type issuerKeys struct {
	byID map[string]jose.JSONWebKey

	mu     sync.Mutex
	judged map[[sha256.Size]byte]*Principal // by the token's digest
}

// maxJudged bounds what is remembered; a signature is judged in some 50 µs.
const maxJudged = 4096

func (k *issuerKeys) recall(token [sha256.Size]byte) *Principal {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.judged[token]
}

func (k *issuerKeys) remember(token [sha256.Size]byte, p *Principal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.judged) >= maxJudged {
		clear(k.judged)
	}
	k.judged[token] = p
}

// algorithms that tokens may be signed by. With a symmetric one, whoever can judge a
// token could make it.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Limits of a token.
const (
	maxJWTBytes   = 8 << 10
	maxJWTTenants = 32
	// clockSkew is how far an issuer's clock may be ahead. A token's end is its end.
	clockSkew = time.Minute
)

// jwtPrefix keeps a subject from passing for a principal of the file.
const jwtPrefix = "jwt:"

// UseKeys takes a JWKS into use, and says what it holds. What is wrong with it leaves
// the keys as they were, and is told without a word of it.
func (i *Issuer) UseKeys(text []byte) (holds string, err error) {
	var set jose.JSONWebKeySet
	if json.Unmarshal(text, &set) != nil {
		return "", errors.New("it is no JSON Web Key Set")
	}
	keys := map[string]jose.JSONWebKey{}
	for n, key := range set.Keys {
		switch _, twice := keys[key.KeyID]; {
		case !key.IsPublic():
			return "", fmt.Errorf("key %d is no public key: whoever reads it could make tokens", n+1)
		case key.KeyID == "" || key.Use != "" && key.Use != "sig":
			// It has other uses than to judge tokens.
		case !key.Valid():
			return "", fmt.Errorf("key %d is invalid", n+1)
		case twice:
			return "", fmt.Errorf("key %d has the kid of one before it", n+1)
		default:
			keys[key.KeyID] = key
		}
	}
	if len(keys) == 0 {
		return "", errors.New("it has no public key with a kid that is for signatures")
	}
	i.keys.Store(&issuerKeys{byID: keys, judged: map[[sha256.Size]byte]*Principal{}})
	return fmt.Sprintf("%d keys", len(keys)), nil
}

// principal gives who shows a token, whose end its reader judges. Errors: Refusal.
func (i *Issuer) principal(token string, now time.Time) (*Principal, error) {
	if len(token) > maxJWTBytes {
		return nil, refuse("malformed JWT", "the JWT has more than %d bytes", maxJWTBytes)
	}
	keys, digest := i.keys.Load(), sha256.Sum256([]byte(token))
	if keys == nil {
		return nil, refuse("no keys", "no keys of the JWTs' issuer are known yet")
	}
	if p := keys.recall(digest); p != nil {
		return p, nil
	}
	p, err := i.judged(keys, token, now)
	if err == nil {
		keys.remember(digest, p)
	}
	return p, err
}

func (i *Issuer) judged(keys *issuerKeys, token string, now time.Time) (*Principal, error) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, refuse("malformed JWT", "the JWT is malformed, or signed by an algorithm that is not taken")
	}
	key, err := i.keyOf(keys, parsed.Headers[0])
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	var all map[string]json.RawMessage
	if parsed.Claims(key, &claims, &all) != nil {
		return nil, refuse("forged JWT", "the JWT's signature is not by the key that it names, or its claims are malformed")
	}
	if err := i.judge(claims, now); err != nil {
		return nil, err
	}
	tenants, err := i.tenantsIn(all[i.TenantClaim])
	if err != nil {
		return nil, err
	}
	name := jwtPrefix + claims.Subject
	if claims.Subject == "" || !isName(name) {
		return nil, refuse("malformed JWT", "the JWT's sub is not 1 to %d printable ASCII characters without a space", oncekeeper.MaxPrincipalBytes-len(jwtPrefix))
	}
	return &Principal{name: name, role: Caller, tenants: tenants, expires: claims.Expiry.Time().UTC()}, nil
}

func (i *Issuer) keyOf(keys *issuerKeys, header jose.Header) (any, error) {
	key, known := keys.byID[header.KeyID]
	if !known && header.KeyID != "" && i.UnknownKey != nil {
		i.UnknownKey()
	}
	if !known || key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return nil, refuse("unknown key", "the JWT's kid is of no key of its issuer's, or of one for another algorithm")
	}
	return key.Key, nil
}

// judge passes over the end, which Identify judges as everybody's.
func (i *Issuer) judge(claims jwt.Claims, now time.Time) error {
	ahead := func(at *jwt.NumericDate) bool { return at != nil && at.Time().After(now.Add(clockSkew)) }
	switch {
	case claims.Issuer != i.Name:
		return refuse("JWT of another issuer", "the JWT is of another issuer than %s", i.Name)
	case !claims.Audience.Contains(i.Audience):
		return refuse("JWT for another audience", "the JWT is for another audience than %s", i.Audience)
	case claims.Expiry == nil:
		return refuse("JWT without an end", "the JWT has no exp, and would hold for ever")
	case ahead(claims.NotBefore), ahead(claims.IssuedAt):
		return refuse("JWT ahead of time", "the JWT does not hold yet: look at the clocks of its issuer and of this host")
	}
	return nil
}

func (i *Issuer) tenantsIn(claim json.RawMessage) (rulefile.Patterns, error) {
	var names []string
	if one := ""; json.Unmarshal(claim, &one) == nil {
		names = []string{one}
	} else if json.Unmarshal(claim, &names) != nil {
		return nil, refuse("malformed JWT", "the JWT's claim %s names no tenants: it must be a string, or a list of them", i.TenantClaim)
	}
	if len(names) == 0 || len(names) > maxJWTTenants {
		return nil, refuse("malformed JWT", "the JWT's claim %s names %d tenants; 1 to %d are taken", i.TenantClaim, len(names), maxJWTTenants)
	}
	var tenants rulefile.Patterns
	for _, name := range names {
		if name == "" || strings.Contains(name, "*") {
			return nil, refuse("malformed JWT", "the JWT's claim %s has a name that is empty or has a star, which stands for nothing there", i.TenantClaim)
		}
		tenants = append(tenants, rulefile.NewPattern(name))
	}
	return tenants, nil
}
