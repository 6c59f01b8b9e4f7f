package auth

import (
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// MaxPrincipals bounds those of a file: a token is compared with each.
const MaxPrincipals = 1000

// maxCredentials bounds the tokens, and the certificates, of one principal.
const maxCredentials = 8

// Faults are all that is wrong with a principals file, by their lines.
type Faults = rulefile.Faults

// Parse reads a principals file, whose name is told with its faults. The error is
// Faults, which repeat no digest.
func Parse(file string, text []byte) (*Set, error) {
	p := &parser{Reader: rulefile.Reader{File: file}, names: map[string]int{}, shown: map[string]int{}}
	if root := p.Document(text, "it names nobody, and nobody could call"); root != nil {
		p.read(root)
	}
	if err := p.Faults.Err(); err != nil {
		return nil, err
	}
	return &Set{all: p.all}, nil
}

type parser struct {
	rulefile.Reader
	all []*Principal
	// names and shown say in which line a name, or a credential, is taken.
	names, shown map[string]int
}

func (p *parser) read(root *yaml.Node) {
	before := len(p.Faults)
	p.Mapping(root, "the file", func(key string, value *yaml.Node) bool {
		if key != "principals" {
			return false
		}
		p.readAll(value)
		return true
	})
	if len(p.all) == 0 && len(p.Faults) == before {
		p.Refuse(root, "principals names nobody, and nobody could call")
	}
}

func (p *parser) readAll(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		p.Refuse(n, "principals is %s, and must be a list", rulefile.KindOf(n))
		return
	}
	if len(n.Content) > MaxPrincipals {
		p.Refuse(n.Content[MaxPrincipals], "there are %d principals; at most %d are taken", len(n.Content), MaxPrincipals)
		return
	}
	for _, item := range n.Content {
		p.all = append(p.all, p.readOne(item))
	}
}

func (p *parser) readOne(n *yaml.Node) *Principal {
	one := &Principal{line: n.Line}
	given := map[string]bool{}
	p.Mapping(n, "a principal", func(key string, value *yaml.Node) bool {
		given[key] = true
		switch key {
		case "name":
			one.name = p.readName(value)
		case "role":
			one.role = p.readRole(value)
		case "tenant":
			one.tenants, _ = p.Patterns(key, value, oncekeeper.MaxTenantBytes)
		case "operation":
			one.operations, _ = p.Patterns(key, value, oncekeeper.MaxOperationBytes)
		case "token_sha256":
			p.each(key, value, func(n *yaml.Node, text string) { p.readToken(one, n, text) })
		case "certificate":
			p.each(key, value, func(n *yaml.Node, text string) { p.readCertificate(one, n, text) })
		case "expires":
			one.expires = p.readMoment(key, value)
		default:
			return false
		}
		return true
	})
	if n.Kind != yaml.MappingNode {
		return one
	}
	for _, key := range []string{"name", "role", "tenant"} {
		if !given[key] {
			p.Refuse(n, "a principal has no %s", key)
		}
	}
	if !given["token_sha256"] && !given["certificate"] {
		p.Refuse(n, "a principal has neither token_sha256 nor certificate: nothing could show who it is")
	}
	return one
}

func (p *parser) readName(n *yaml.Node) string {
	name, ok := p.Scalar(n, "name")
	first, taken := p.names[name]
	switch {
	case !ok:
	case !isName(name):
		p.Refuse(n, "the name %s is not 1 to %d printable ASCII characters without a space", rulefile.Shown(name), oncekeeper.MaxPrincipalBytes)
	case strings.HasPrefix(name, jwtPrefix):
		p.Refuse(n, "the name %s begins with %s, which is kept for those who show a JWT", rulefile.Shown(name), jwtPrefix)
	case taken:
		p.Refuse(n, "the name %s is taken by the principal in line %d", rulefile.Shown(name), first)
	default:
		p.names[name] = n.Line
	}
	return name
}

func isName(name string) bool {
	odd := func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }
	return name != "" && len(name) <= oncekeeper.MaxPrincipalBytes && !strings.ContainsFunc(name, odd)
}

func (p *parser) readRole(n *yaml.Node) Role {
	text, ok := p.Scalar(n, "role")
	if role := Role(text); ok && role != Caller && role != Operator {
		p.Refuse(n, "the role %s is neither %s nor %s", rulefile.Shown(text), Caller, Operator)
	}
	return Role(text)
}

// each reads one text, or a list of them.
func (p *parser) each(key string, n *yaml.Node, read func(*yaml.Node, string)) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if items = n.Content; len(items) == 0 || len(items) > maxCredentials {
			p.Refuse(n, "%s has %d entries; 1 to %d are taken", key, len(items), maxCredentials)
			return
		}
	}
	for _, item := range items {
		if text, ok := p.Scalar(item, key); ok {
			read(item, text)
		}
	}
}

// readToken repeats nothing of what it refuses: it may be the token itself.
func (p *parser) readToken(one *Principal, n *yaml.Node, text string) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		p.Refuse(n, "token_sha256 is not a SHA-256 in 64 hexadecimal digits: oncekeeper token new prints one")
		return
	}
	if p.take(n, "token_sha256", string(raw)) {
		one.tokens = append(one.tokens, [32]byte(raw))
	}
}

var dnsName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)

// readCertificate takes a text with a colon for a URI, and any other for a DNS name.
func (p *parser) readCertificate(one *Principal, n *yaml.Node, text string) {
	if strings.Contains(text, ":") {
		uri, err := url.Parse(text)
		if err != nil || uri.Scheme == "" || uri.String() != text {
			p.Refuse(n, "certificate %s is no URI as certificates have it", rulefile.Shown(text))
		} else if p.take(n, "certificate", text) {
			one.uris = append(one.uris, text)
		}
		return
	}
	name := strings.ToLower(text)
	if !dnsName.MatchString(name) {
		p.Refuse(n, "certificate %s is neither a DNS name nor a URI; a star stands for nothing here", rulefile.Shown(text))
	} else if p.take(n, "certificate", name) {
		one.dns = append(one.dns, name)
	}
}

// take refuses what shows two principals.
func (p *parser) take(n *yaml.Node, key, credential string) bool {
	if line, taken := p.shown[key+credential]; taken {
		p.Refuse(n, "%s is given in line %d too: it would show two principals", key, line)
		return false
	}
	p.shown[key+credential] = n.Line
	return true
}

func (p *parser) readMoment(key string, n *yaml.Node) time.Time {
	text, ok := p.Scalar(n, key)
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.Refuse(n, "%s %s is no moment: write 2027-01-31T00:00:00Z", key, rulefile.Shown(text))
	}
	return at.UTC()
}
