package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

const goodPolicy = `defaults:
  retention: 7d
rules:
  - name: payouts
    tenant: acme
    operation: payouts.*
    lease: 2m
    on_lease_expiry: hold
`

const badPolicy = `defaults:
  retention: 7
rules:
  - name: payouts
    operation: payouts.*
    leese: 2m
`

func policyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, text)
	return path
}

func TestPolicyCheckTellsEachFaultInALineAndListsTheRulesOfAGoodFile(t *testing.T) {
	good, bad := policyFile(t, goodPolicy), policyFile(t, badPolicy)
	code, out, stderr := command(t, "policy", "check", good)
	want := `RULE     LINE  TENANT  OPERATION  GIVES
payouts  4     acme    payouts.*  lease=2m on_lease_expiry=hold
default  2     *       *          retention=7d
`
	if code != 0 || out != want {
		t.Errorf("exit %d: %s\n%s\nwant\n%s", code, stderr, out, want)
	}

	code, out, stderr = command(t, "policy", "check", bad)
	lines := strings.Split(out, "\n")
	if code != exitFailed || len(lines) != 3 || !strings.HasPrefix(lines[0], bad+":2: retention: ") ||
		lines[1] != bad+`:6: "leese" is not known in a rule` || !strings.Contains(stderr, "is refused") {
		t.Errorf("exit %d: %s\n%s", code, stderr, out)
	}

	code, out, stderr = command(t, "policy", "check", "nowhere.yaml")
	if code != exitFailed || stderr != "oncekeeper: reading nowhere.yaml: no such file or directory\n" {
		t.Errorf("exit %d: %s%s", code, stderr, out)
	}
}

func TestPolicyCheckPrintsJSON(t *testing.T) {
	for text, want := range map[string]int{goodPolicy: 0, badPolicy: exitFailed} {
		code, out, stderr := command(t, "policy", "check", "--json", policyFile(t, text))
		var got checked
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != want || (len(got.Faults) == 2) != (want != 0) || (len(got.Rules) == 2) != (want == 0) {
			t.Errorf("exit %d: %s%s (%v)", code, stderr, out, err)
		}
	}
}

func TestPolicyExplainSaysWhichRuleHoldsAndWhereEachValueIsFrom(t *testing.T) {
	t.Setenv("ONCEKEEPER_POLICY", policyFile(t, goodPolicy))
	code, out, stderr := command(t, "policy", "explain", "acme", "payouts.create")
	out = regexp.MustCompile(" +").ReplaceAllString(out, " ")
	for _, want := range []string{"rule payouts (line 4) holds", "lease 2m rule payouts, line 7\n", "retention 7d defaults, line 2\n", "max_lease 1h built in\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s: it lacks %q:\n%s", code, stderr, want, out)
		}
	}
	code, out, stderr = command(t, "policy", "explain", "globex", "payouts.create")
	if code != 0 || !strings.Contains(out, "the defaults hold: no rule fits\nnot rule payouts (line 4): the tenant does not fit acme\n") {
		t.Errorf("exit %d: %s%s", code, stderr, out)
	}
	code, out, stderr = command(t, "policy", "explain", "acme", "payouts.create", "--json")
	var e policy.Explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 || e.Rule != "payouts" || len(e.Values) == 0 {
		t.Errorf("exit %d: %s%s (%v)", code, stderr, out, err)
	}
	code, _, stderr = command(t, "policy", "explain", "acme", "payouts.create", "--policy", policyFile(t, badPolicy))
	if code != exitFailed || strings.Count(stderr, "policy.yaml:") != 2 {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestExplainWithoutAFileTellsTheBuiltInPolicy(t *testing.T) {
	code, out, stderr := command(t, "policy", "explain", "acme", "pay")
	if code != 0 || strings.Count(out, "built in\n") != len(policy.BuiltIn().Explain("", "").Values) {
		t.Errorf("exit %d: %s%s", code, stderr, out)
	}
}

func TestServeRefusesABadPolicyWithLineAndReason(t *testing.T) {
	bad := policyFile(t, badPolicy)
	code, _, stderr := command(t, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--policy", bad)
	if code != exitFailed || !strings.Contains(stderr, bad+":2: ") || !strings.Contains(stderr, bad+":6: ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestServeReadsItsPolicyAgainOnHangupAndKeepsTheOldOneWhereTheNewOneIsBad(t *testing.T) {
	path := policyFile(t, goodPolicy)
	address, log := serving(t, "--store", "memory:", "--policy", path)
	keeper := dialled(t, address)
	lease := func(id string) string {
		t.Helper()
		begun, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: &pb.Key{Tenant: "acme", Operation: "payouts.create", Id: id}})
		if err != nil || begun.GetGrant() == nil {
			t.Fatalf("Begin gives %v, %v", begun, err)
		}
		return begun.GetGrant().GetLease().AsDuration().String()
	}
	hangup := func(text string) {
		t.Helper()
		write(t, path, text)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if got := lease("1"); got != "2m0s" {
		t.Errorf("by the first policy a lease is %s", got)
	}
	hangup(badPolicy)
	if line := log.await(t, "the policy is refused"); !strings.Contains(line["error"].(string), path+":6: ") {
		t.Errorf("it is refused for %v", line)
	}
	if got := lease("2"); got != "2m0s" {
		t.Errorf("after a bad policy a lease is %s", got)
	}
	hangup(strings.Replace(goodPolicy, "2m", "3m", 1))
	if line := log.await(t, "the policy was read again"); line["changes"] != "changed payouts" {
		t.Errorf("it was read with %v", line)
	}
	if got := lease("3"); got != "3m0s" {
		t.Errorf("by the new policy a lease is %s", got)
	}
}
