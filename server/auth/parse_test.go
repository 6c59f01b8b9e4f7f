package auth_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

func TestABadPrincipalsFileIsRefusedWithItsLines(t *testing.T) {
	digest := auth.TokenDigest("ok_one")
	good := "  - {name: a, role: caller, tenant: acme, token_sha256: " + digest + "}\n"
	one := func(with string) string { return "principals:\n  - {" + with + "}\n" }
	for name, c := range map[string]struct{ text, want string }{
		"empty":                    {" \n", "1: the file is empty"},
		"a list":                   {"- a\n", "1: the file is a list, and must be a mapping"},
		"no YAML":                  {"principals: [\n", "it is no YAML"},
		"nobody":                   {"principals: []\n", "1: principals names nobody"},
		"no principals":            {"{}\n", "1: principals names nobody"},
		"another key":              {"principal: []\n", `1: "principal" is not known in the file`},
		"no name":                  {one("role: caller, tenant: a, certificate: b"), "2: a principal has no name"},
		"no role":                  {one("name: a, tenant: a, certificate: b"), "2: a principal has no role"},
		"no tenant":                {one("name: a, role: caller, certificate: b"), "2: a principal has no tenant"},
		"no credential":            {one("name: a, role: caller, tenant: a"), "2: a principal has neither token_sha256 nor certificate"},
		"an odd name":              {one("name: a b, role: caller, tenant: a, certificate: b"), "2: the name \"a b\" is not 1 to 128"},
		"a long name":              {one("name: " + strings.Repeat("n", 129) + ", role: caller, tenant: a, certificate: b"), "is not 1 to 128"},
		"a name of a JWT's":        {one("name: 'jwt:a', role: caller, tenant: a, certificate: b"), "begins with jwt:, which is kept"},
		"another role":             {one("name: a, role: admin, tenant: a, certificate: b"), `2: the role "admin" is neither caller nor operator`},
		"an empty pattern":         {one("name: a, role: caller, tenant: '', certificate: b"), "2: tenant is empty"},
		"no patterns":              {one("name: a, role: caller, tenant: [], certificate: b"), "2: tenant has 0 patterns"},
		"a token":                  {one("name: a, role: caller, tenant: a, token_sha256: " + token), "2: token_sha256 is not a SHA-256"},
		"a short digest":           {one("name: a, role: caller, tenant: a, token_sha256: " + digest[2:]), "2: token_sha256 is not a SHA-256"},
		"a star for a name":        {one("name: a, role: caller, tenant: a, certificate: '*.example'"), "a star stands for nothing here"},
		"no URI":                   {one("name: a, role: caller, tenant: a, certificate: ':x'"), "2: certificate \":x\" is no URI"},
		"no moment":                {one("name: a, role: caller, tenant: a, certificate: b, expires: tomorrow"), `2: expires "tomorrow" is no moment`},
		"a name twice":             {"principals:\n" + good + "  - {name: a, role: caller, tenant: b, certificate: b}\n", `3: the name "a" is taken by the principal in line 2`},
		"a digest twice":           {"principals:\n" + good + "  - {name: b, role: caller, tenant: b, token_sha256: " + strings.ToUpper(digest) + "}\n", "3: token_sha256 is given in line 2 too"},
		"a certificate twice":      {one("name: a, role: caller, tenant: a, certificate: [b.example, B.example]"), "2: certificate is given in line 2 too"},
		"too many certificates":    {one("name: a, role: caller, tenant: a, certificate: [a, b, c, d, e, f, g, h, i]"), "2: certificate has 9 entries; 1 to 8"},
		"a key that nobody knows":  {one("name: a, role: caller, tenant: a, certificate: b, tenants: c"), `2: "tenants" is not known in a principal`},
		"too many principals":      {"principals:\n" + strings.Repeat(good, auth.MaxPrincipals+1), "1002: there are 1001 principals"},
		"a principal that is none": {"principals: [a]\n", "1: a principal is a value"},
	} {
		set, err := auth.Parse("p.yaml", []byte(c.text))
		if faults := (auth.Faults)(nil); set != nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %s", name, err, c.want)
		}
		if said := fmt.Sprint(err); strings.Contains(said, "secret") || strings.Contains(strings.ToLower(said), digest) {
			t.Errorf("%s: the fault tells a credential: %v", name, err)
		}
	}
}

func TestTheExampleOfTheReferenceIsAPrincipalsFileAndMeansWhatItSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/trust.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) != 1 {
		t.Fatalf("the page has %d examples, want one", len(examples))
	}
	set := parsed(t, string(examples[0][1]))
	p, err := auth.Trust{Principals: set}.Identify(connected(t, named("ledger.internal"), true), now)
	if err != nil || p.Name() != "ledger" || !p.May(pb.IdempotencyService_Begin_FullMethodName, "acme-eu", "ledger.post") {
		t.Errorf("got %v, %v", p.Name(), err)
	}
	if _, err = (auth.Trust{Principals: set}).Identify(connected(t, named("on-call.internal"), true), now); err == nil {
		t.Error("on-call does not expire")
	}
}

func TestAPrincipalThatOnlyACertificateShowsIsFound(t *testing.T) {
	tokens := parsed(t, "principals:\n  - {name: a, role: caller, tenant: a, certificate: b, token_sha256: "+auth.TokenDigest("x")+"}\n")
	if name, any := tokens.NeedCertificates(); any {
		t.Errorf("%s is said to need a certificate", name)
	}
	if name, any := parsed(t, "principals:\n  - {name: a, role: caller, tenant: a, certificate: b}\n").NeedCertificates(); !any || name != "a" {
		t.Errorf("got %q, %v", name, any)
	}
}
