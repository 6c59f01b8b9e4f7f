package auth_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// four are a caller and an operator of a part, and of all.
func four(t *testing.T) map[string]*auth.Principal {
	t.Helper()
	set := parsed(t, `principals:
  - {name: shop, role: caller, tenant: acme, operation: [pay, refund.*], token_sha256: `+auth.TokenDigest("ok_shop")+`}
  - {name: clerk, role: operator, tenant: [acme, acme-*], token_sha256: `+auth.TokenDigest("ok_clerk")+`}
  - {name: mesh, role: caller, tenant: "*", token_sha256: `+auth.TokenDigest("ok_mesh")+`}
  - {name: root, role: operator, tenant: "*", token_sha256: `+auth.TokenDigest("ok_root")+`}
`)
	all := map[string]*auth.Principal{}
	for _, name := range []string{"shop", "clerk", "mesh", "root"} {
		all[name] = identified(t, set, "ok_"+name)
	}
	return all
}

// places are what calls are about, and who may call there if their role lets them.
var places = []struct {
	tenant, operation string
	who               string
}{
	{"acme", "pay", "shop clerk mesh root"},
	{"acme", "refund.card", "shop clerk mesh root"},
	{"acme", "payout", "clerk mesh root"},
	{"acme-2", "pay", "clerk mesh root"},
	{"acmeX", "pay", "mesh root"},
	{"other", "pay", "mesh root"},
}

// TestWhoMayCallWhat has a row for every method there is: one that comes later is
// missing here, and allowed to nobody, until somebody decides about it.
func TestWhoMayCallWhat(t *testing.T) {
	const callers, operators, both = "shop mesh", "clerk root", "shop mesh clerk root"
	roles := map[string]string{
		"IdempotencyService/Begin": callers, "IdempotencyService/Renew": callers, "IdempotencyService/Complete": callers, "IdempotencyService/Fail": callers,
		"IdempotencyService/BatchBegin": callers, "IdempotencyService/BatchSettle": callers, "IdempotencyService/Get": both,
		"AdminService/Sweep": operators, "AdminService/ListRecords": operators, "AdminService/ResolveRecord": operators, "AdminService/DeleteRecord": operators,
		"AdminService/Backup": "root",
	}
	people := four(t)
	methods := 0
	for _, file := range []protoreflect.FileDescriptor{pb.File_oncekeeper_v1_idempotency_proto, pb.File_oncekeeper_v1_admin_proto} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				methods++
				short := fmt.Sprintf("%s/%s", service.Name(), service.Methods().Get(j).Name())
				allowed, decided := roles[short]
				if !decided {
					t.Errorf("nobody decided who may call %s: give it a row here and in decide.go", short)
				}
				whole := fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name())
				for name, p := range people {
					for _, at := range places {
						want := has(allowed, name) && has(at.who, name)
						if got := p.May(whole, at.tenant, at.operation); got != want {
							t.Errorf("may %s call %s about %s of %s: got %v, want %v", name, short, at.operation, at.tenant, got, want)
						}
					}
				}
			}
		}
	}
	if methods != len(roles) {
		t.Errorf("the services have %d methods, and %d are decided about", methods, len(roles))
	}
}

func has(names, name string) bool { return strings.Contains(" "+names+" ", " "+name+" ") }

func TestWhatNobodyDecidedAboutIsAllowedToNobody(t *testing.T) {
	for name, p := range four(t) {
		if p.May("/oncekeeper.v1.AdminService/Burn", "acme", "pay") || p.MayCall("/oncekeeper.v1.AdminService/Burn") {
			t.Errorf("%s may call a method that has no row", name)
		}
	}
}

// What a call of many keys leaves out stands for all, and is not for who may a part.
func TestAllIsForWhoMayAll(t *testing.T) {
	people := four(t)
	for _, at := range [][2]string{{"", ""}, {"", "pay"}} {
		for name, want := range map[string]bool{"root": true, "clerk": false, "shop": false, "mesh": false} {
			if got := people[name].May(pb.AdminService_ListRecords_FullMethodName, at[0], at[1]); got != want {
				t.Errorf("may %s list %q: got %v, want %v", name, at, got, want)
			}
		}
	}
}

func TestScopesAreTheFewestThatSayWhatOneMay(t *testing.T) {
	set := parsed(t, `principals:
  - {name: all, role: operator, tenant: "*", token_sha256: `+auth.TokenDigest("ok_all")+`}
  - {name: two, role: operator, tenant: [b, a, b], token_sha256: `+auth.TokenDigest("ok_two")+`}
  - {name: grid, role: operator, tenant: [a, b], operation: [x, y], token_sha256: `+auth.TokenDigest("ok_grid")+`}
  - {name: star, role: operator, tenant: a*, operation: x, token_sha256: `+auth.TokenDigest("ok_star")+`}
`)
	for _, c := range []struct {
		who, tenant, operation string
		want                   string
		ok                     bool
	}{
		{"all", "", "", "[{ }]", true},
		{"all", "t", "", "[{t }]", true},
		{"two", "", "", "[{a } {b }]", true},
		{"two", "", "x", "[{a x} {b x}]", true},
		{"two", "c", "", "[]", true},
		{"grid", "", "", "[{a x} {a y} {b x} {b y}]", true},
		{"grid", "a", "", "[{a x} {a y}]", true},
		{"grid", "a", "z", "[]", true},
		{"star", "", "", "[]", false},
		{"star", "ab", "", "[{ab x}]", true},
		{"star", "b", "", "[]", true},
	} {
		got, ok := identified(t, set, "ok_"+c.who).Scopes(c.tenant, c.operation)
		if fmt.Sprint(got) != c.want || ok != c.ok {
			t.Errorf("what %s may of %q %q: got %v, %v; want %s, %v", c.who, c.tenant, c.operation, got, ok, c.want, c.ok)
		}
	}
}
