package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// onBothStores runs a test of commands against a service on each kind of store,
// which commands find by the environment.
func onBothStores(t *testing.T, test func(t *testing.T, keeper pb.IdempotencyServiceClient)) {
	for name, store := range map[string]func() string{
		"memory": func() string { return "memory:" }, "postgres": func() string { return pgtest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) { test(t, atService(t, store())) })
	}
}

func atService(t *testing.T, store string) pb.IdempotencyServiceClient {
	t.Helper()
	address, _ := serving(t, "--store", store)
	t.Setenv("ONCEKEEPER_ADDRESS", address)
	return dialled(t, address)
}

// held makes a key of tenant demo that is held, and gives its token.
func held(t *testing.T, keeper pb.IdempotencyServiceClient, operation, id string) int64 {
	t.Helper()
	key := &pb.Key{Tenant: "demo", Operation: operation, Id: id}
	begun, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: key, Holder: "pod-7", OnLeaseExpiry: pb.LeaseExpiry_LEASE_EXPIRY_HOLD})
	if err != nil || begun.GetGrant() == nil {
		t.Fatalf("Begin gives %v, %v", begun, err)
	}
	token := begun.GetGrant().GetFencingToken()
	_, err = keeper.Fail(t.Context(), &pb.FailRequest{Key: key, FencingToken: token, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func record(t *testing.T, keeper pb.IdempotencyServiceClient, operation, id string) *pb.KeyRecord {
	t.Helper()
	res, err := keeper.Get(t.Context(), &pb.GetRequest{Key: &pb.Key{Tenant: "demo", Operation: operation, Id: id}})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetRecord()
}

// asked runs a command on a terminal where somebody types.
func asked(t *testing.T, typed string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, console{in: strings.NewReader(typed), out: &out, err: &errs, asks: true})
	return code, out.String(), errs.String()
}

// words splits a command line as a shell does, as far as examples need.
func words(line string) []string {
	found := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1)
	for i, w := range found {
		found[i] = strings.Trim(w, `"`)
	}
	return found
}

func TestResolveGivesLaterCallersTheAnswerOfAFile(t *testing.T) {
	onBothStores(t, func(t *testing.T, keeper pb.IdempotencyServiceClient) {
		file := filepath.Join(t.TempDir(), "answer")
		if err := os.WriteFile(file, []byte("paid\x00\xff"), 0o600); err != nil {
			t.Fatal(err)
		}
		held(t, keeper, "pay", "1")
		code, stdout, stderr := command(t, "resolve", "demo", "pay", "1", "--completed", "--response", file,
			"--content-type", "text/plain", "--status-code", "201", "--resource", "charges/7", "--reason", "it is in the ledger", "--yes")
		if code != 0 || !strings.Contains(stdout, "COMPLETED") || !strings.Contains(stderr, "UNRESOLVED") {
			t.Fatalf("resolve exits with %d; it shows the record before %q and after %q", code, stderr, stdout)
		}
		o := record(t, keeper, "pay", "1").GetOutcome()
		r := o.GetResponse()
		if string(r.GetBody()) != "paid\x00\xff" || r.GetContentType() != "text/plain" || r.GetStatusCode() != 201 || r.GetResource() != "charges/7" ||
			r.GetOmitted() || o.GetOrigin() != pb.Outcome_ORIGIN_OPERATOR {
			t.Errorf("the outcome is %v", o)
		}
	})
}

func TestResolveWithoutAnAnswerSaysThatItWasNotKept(t *testing.T) {
	keeper := atService(t, "memory:")
	held(t, keeper, "pay", "1")
	if code, _, stderr := command(t, "resolve", "demo", "pay", "1", "--completed", "--reason", "it is in the ledger", "--yes"); code != 0 {
		t.Fatal(stderr)
	}
	if r := record(t, keeper, "pay", "1").GetOutcome().GetResponse(); !r.GetOmitted() {
		t.Errorf("the response is %v, want one that was not kept", r)
	}
	held(t, keeper, "pay", "2")
	empty := []string{"resolve", "demo", "pay", "2", "--completed", "--response", os.DevNull, "--reason", "it answers nothing", "--yes"}
	if code, _, stderr := command(t, empty...); code != 0 {
		t.Fatal(stderr)
	}
	if r := record(t, keeper, "pay", "2").GetOutcome().GetResponse(); r.GetOmitted() || len(r.GetBody()) > 0 {
		t.Errorf("the response is %v, want an empty one", r)
	}
}

func TestTheLogsLineOfADecisionIsFoundByWhatGetShows(t *testing.T) {
	address, log := serving(t, "--store", "memory:")
	t.Setenv("ONCEKEEPER_ADDRESS", address)
	held(t, dialled(t, address), "pay", "1")
	_, shown, _ := command(t, "get", "demo", "pay", "1")
	if code, _, stderr := command(t, "resolve", "demo", "pay", "1", "--release", "--reason", "no row", "--yes"); code != 0 {
		t.Fatal(stderr)
	}
	line := log.await(t, "an operator resolved a key")
	if hash := line["key_hash"].(string); line["reason"] != "no row" || len(hash) != 12 || !strings.Contains(shown, hash) {
		t.Errorf("the log says %v, and get shows\n%s", line, shown)
	}
}

func TestResolveAsksAndOnlyAYesChangesAnything(t *testing.T) {
	keeper := atService(t, "memory:")
	held(t, keeper, "pay", "1")
	release := []string{"resolve", "demo", "pay", "1", "--release", "--reason", "no row"}
	for _, no := range []string{"n\n", "\n", "", "no\n", "yess\n"} {
		code, _, stderr := asked(t, no, release...)
		if code != exitFailed || !strings.Contains(stderr, "Resolve it as RELEASED") || !strings.Contains(stderr, "nothing was changed") {
			t.Errorf("after %q it exits with %d: %s", no, code, stderr)
		}
	}
	if code, _, stderr := command(t, release...); code != exitUsage || !strings.Contains(stderr, "--yes") {
		t.Errorf("with nobody to ask it exits with %d: %s", code, stderr)
	}
	if got := record(t, keeper, "pay", "1").GetState(); got != pb.KeyRecord_STATE_UNRESOLVED {
		t.Fatalf("nobody agreed, and the key is %v", got)
	}
	if code, _, stderr := asked(t, "Y\n", release...); code != 0 || record(t, keeper, "pay", "1").GetState() != pb.KeyRecord_STATE_RELEASED {
		t.Errorf("after a yes it exits with %d: %s", code, stderr)
	}
}

func TestAQuestionThatNobodyAnswersEndsWithTheCommand(t *testing.T) {
	silent, typist := io.Pipe()
	defer func() { _ = typist.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	agreed := make(chan bool, 1)
	var errs bytes.Buffer
	go func() { agreed <- console{in: silent, err: &errs}.agree(ctx, "Really?") }()
	interrupt()
	select {
	case yes := <-agreed:
		if yes {
			t.Error("silence was taken for a yes")
		}
	case <-time.After(time.Minute):
		t.Fatal("an interrupt does not end the question")
	}
}

func TestResolveRefusesAndSaysWhatToDo(t *testing.T) {
	keeper := atService(t, "memory:")
	begin := func(id string) int64 {
		res, err := keeper.Begin(t.Context(), &pb.BeginRequest{Key: &pb.Key{Tenant: "demo", Operation: "pay", Id: id}})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetGrant().GetFencingToken()
	}
	begin("live")
	_, err := keeper.Complete(t.Context(), &pb.CompleteRequest{Key: &pb.Key{Tenant: "demo", Operation: "pay", Id: "it's done"}, FencingToken: begin("it's done")})
	if err != nil {
		t.Fatal(err)
	}
	held(t, keeper, "pay", "held")
	for _, c := range []struct {
		want  string
		exit  int
		id    string
		flags []string
	}{
		{"there is no record", exitNotFound, "none", []string{"--release", "--reason", "r", "--yes"}},
		{"with --force", exitFailed, "live", []string{"--release", "--reason", "r", "--yes"}},
		{`demo pay 'it'\''s done'`, exitFailed, "it's done", []string{"--release", "--reason", "r", "--yes", "--force"}},
		{"look again with oncekeeper get", exitFailed, "held", []string{"--release", "--reason", "r", "--etag", "1-1"}},
		{"reason: has 513 bytes", exitFailed, "held", []string{"--release", "--reason", strings.Repeat("r", 513), "--yes"}},
		{"whether it was done is not known", exitFailed, "held", []string{"--release", "--reason", "r", "--etag", "1-1", "--address", "127.0.0.1:1"}},
		{"--response: open", exitFailed, "held", []string{"--completed", "--response", "/nonesuch", "--reason", "r", "--yes"}},
		{"missing flags: --reason", exitUsage, "held", []string{"--release"}},
		{"say what became of it", exitUsage, "held", []string{"--reason", "r"}},
		{"can't be used together", exitUsage, "held", []string{"--reason", "r", "--release", "--completed"}},
		{"can't be used together", exitUsage, "held", []string{"--reason", "r", "--release", "--etag", "1-1", "--yes"}},
		{"go with --completed", exitUsage, "held", []string{"--reason", "r", "--release", "--resource", "x"}},
		{"give --yes or --etag too", exitUsage, "held", []string{"--reason", "r", "--completed", "--response", "-"}},
		{"not a gRPC code of a failure", exitUsage, "held", []string{"--reason", "r", "--failed", "0", "m"}},
		{"not a gRPC code of a failure", exitUsage, "held", []string{"--reason", "r", "--failed", "17", "m"}},
		{"not a gRPC code of a failure", exitUsage, "held", []string{"--reason", "r", "--failed", "nope", "m"}},
		{"give a message behind the code", exitUsage, "held", []string{"--reason", "r", "--failed", "9"}},
	} {
		code, _, stderr := command(t, append([]string{"resolve", "demo", "pay", c.id}, c.flags...)...)
		if code != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("resolve %s %v exits with %d and says %q; want %d, %q", c.id, c.flags, code, stderr, c.exit, c.want)
		}
	}
	if got := record(t, keeper, "pay", "held").GetState(); got != pb.KeyRecord_STATE_UNRESOLVED {
		t.Errorf("every command was refused, and the key is %v", got)
	}
}

func TestDeleteForgetsAKeyAndAnOutcomeOnlyByForce(t *testing.T) {
	onBothStores(t, func(t *testing.T, keeper pb.IdempotencyServiceClient) {
		token := held(t, keeper, "pay", "1")
		key := &pb.Key{Tenant: "demo", Operation: "pay", Id: "1"}
		if _, err := keeper.Complete(t.Context(), &pb.CompleteRequest{Key: key, FencingToken: token}); err != nil {
			t.Fatal(err)
		}
		forget := []string{"delete", "demo", "pay", "1", "--reason", "the wrong account"}
		if code, _, stderr := command(t, append(forget, "--yes")...); code != exitFailed || !strings.Contains(stderr, "give --force too") {
			t.Errorf("without force it exits with %d: %s", code, stderr)
		}
		if code, _, stderr := asked(t, "n\n", append(forget, "--force")...); code != exitFailed || !strings.Contains(stderr, "nothing was changed") {
			t.Errorf("after a no it exits with %d: %s", code, stderr)
		}
		if code, stdout, stderr := asked(t, "yes\n", append(forget, "--force")...); code != 0 || !strings.Contains(stdout, "deleted") {
			t.Errorf("after a yes it exits with %d: %s%s", code, stdout, stderr)
		}
		if again := held(t, keeper, "pay", "1"); again <= token {
			t.Errorf("the next life has token %d, want one above %d", again, token)
		}
	})
}

func TestASuggestedCommandNamesTheKeyAsAShellReadsIt(t *testing.T) {
	for id, want := range map[string]string{
		"7": "oncekeeper get acme pay 7", "a b": "oncekeeper get acme pay 'a b'", "it's": `oncekeeper get acme pay 'it'\''s'`,
		"-x": "oncekeeper get -- acme pay -x", "$(rm)": "oncekeeper get acme pay '$(rm)'", "a\u200bb'": `oncekeeper get acme pay $'a\u200bb\''`,
	} {
		k := &keyed{Tenant: "acme", Operation: "pay", ID: id, remote: remote{Address: defaultAddress}}
		if got := k.suggest("get"); got != want {
			t.Errorf("for %q it suggests %s, want %s", id, got, want)
		}
	}
	k := &keyed{Tenant: "acme", Operation: "pay", ID: "7", remote: remote{Address: "db:1"}}
	if got, want := k.suggest("get"), "oncekeeper get --address db:1 acme pay 7"; got != want {
		t.Errorf("it suggests %s, want %s", got, want)
	}
}
