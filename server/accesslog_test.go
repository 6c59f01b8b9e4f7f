package server_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// lines gives the access log's lines.
func (h *operated) lines() []string {
	var lines []string
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, " msg=call ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func logging(t *testing.T, cfg server.AccessLog) *operated {
	t.Helper()
	return operate(t, onPebble(t), func(c *server.Config) { c.AccessLog = cfg })
}

func TestEachCallThatIsDrawnLeavesALineThatSaysWhatBecameOfIt(t *testing.T) {
	h := logging(t, server.AccessLog{Share: 1})
	token := h.grant(t, begin("secret-id", "")).GetFencingToken()
	h.grantless(t, begin("secret-id", ""))
	h.complete(t, "secret-id", token, "done")
	_, _ = h.Complete(testContext(t), &pb.CompleteRequest{Key: key("secret-id"), FencingToken: token + 1})
	_, _ = h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{begin("secret-id", ""), begin("2", ""), begin("3", "")}})
	_, _ = h.Begin(testContext(t), begin(" ", ""))
	about := ` tenant=acme operation=pay key_hash=` + oncekeeper.Key{Tenant: "acme", Operation: "pay", ID: "secret-id"}.Hash()
	want := []string{
		`method=Begin result=granted code=OK` + about + ` .*took=`,
		`method=Begin result=in_progress code=OK` + about + ` .*took=`,
		`method=Complete result=completed code=OK` + about + ` .*took=`,
		`method=Complete result=fenced code=FailedPrecondition` + about + ` .*took=`,
		`method=BatchBegin result="granted:2 replayed:1" code=OK items=3 .*took=`,
		`method=Begin result=invalid code=InvalidArgument tenant=acme operation=pay key_hash=`,
	}
	lines := h.lines()
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, ""))
	}
	for i, w := range want {
		if !regexp.MustCompile(w).MatchString(lines[i]) {
			t.Errorf("line %d is\n%swant %s", i, lines[i], w)
		}
	}
	if strings.Contains(h.log.String(), "secret-id") {
		t.Errorf("the log tells a key:\n%s", h.log)
	}
}

func TestKeysAreLoggedWholeOnlyWhereThatIsAskedFor(t *testing.T) {
	h := logging(t, server.AccessLog{Share: 1, Keys: true})
	h.grant(t, begin("secret-id", ""))
	if lines := h.lines(); len(lines) != 1 || !strings.Contains(lines[0], "key_id=secret-id") {
		t.Errorf("the lines are %v", lines)
	}
}

func TestWithNoShareNoCallLeavesALine(t *testing.T) {
	h := logging(t, server.AccessLog{})
	h.grant(t, begin("1", ""))
	_, _ = h.Begin(testContext(t), begin(" ", ""))
	if lines := h.lines(); len(lines) != 0 {
		t.Errorf("the lines are %v", lines)
	}
}

func TestRefusalsAndFaultsMayBeDrawnMoreOften(t *testing.T) {
	h := logging(t, server.AccessLog{Refusals: 1})
	h.grant(t, begin("1", ""))
	h.grantless(t, begin("1", ""))
	_, _ = h.Get(testContext(t), &pb.GetRequest{Key: key("not there")})
	if lines := h.lines(); len(lines) != 0 {
		t.Errorf("the normal life of callers leaves %v", lines)
	}
	_, _ = h.Begin(testContext(t), begin(" ", ""))
	if lines := h.lines(); len(lines) != 1 || !strings.Contains(lines[0], "result=invalid") {
		t.Errorf("an invalid call leaves %v", lines)
	}
}

func TestAFloodLeavesNoMoreLinesThanASecondMayHave(t *testing.T) {
	h := logging(t, server.AccessLog{Share: 1, PerSecond: 3})
	for i := range 10 {
		h.grant(t, begin(fmt.Sprint(i), ""))
	}
	if n := len(h.lines()); n != 3 {
		t.Fatalf("%d lines in one second, want 3", n)
	}
	h.clock.Advance(time.Second)
	h.grant(t, begin("next", ""))
	lines := h.lines()
	if len(lines) != 4 || !strings.Contains(lines[3], "left_out=7") {
		t.Errorf("the next second's line is %v, want one that says that 7 were left out", lines[3:])
	}
	h.grant(t, begin("and next", ""))
	if lines := h.lines(); strings.Contains(lines[4], "left_out") {
		t.Errorf("they are told twice: %s", lines[4])
	}
}

func TestAShareThatIsNoneIsRefused(t *testing.T) {
	for _, bad := range []server.AccessLog{{Share: -0.1}, {Share: 1.1}, {Refusals: math.NaN()}, {PerSecond: -1}} {
		if _, err := server.New(server.Config{Store: onPebble(t).open(t), AccessLog: bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestWhatSomebodySendsIsCutInALine(t *testing.T) {
	h := logging(t, server.AccessLog{Refusals: 1})
	_, _ = h.Begin(testContext(t), &pb.BeginRequest{Key: &pb.Key{Tenant: strings.Repeat("é", 100_000), Operation: "a\nb\"" + strings.Repeat("o", 100_000)}})
	lines := h.lines()
	if len(lines) != 1 || len(lines[0]) > 1000 {
		t.Errorf("%d lines, of %d bytes", len(lines), len(strings.Join(lines, "")))
	}
}

func TestWhoIsRefusedIsInTheLog(t *testing.T) {
	h := operate(t, onPebble(t), func(c *server.Config) {
		c.AccessLog = server.AccessLog{Refusals: 1}
		c.Trust = &auth.Trust{Principals: auth.NewLive(people(t, "shop, role: caller, tenant: shop"))}
	})
	for range 5 {
		_, _ = h.Begin(as(t, "shop"), &pb.BeginRequest{Key: of("bank", "1")})
	}
	_, _ = h.Begin(metadata.AppendToOutgoingContext(testContext(t), "authorization", "Bearer wrong"), &pb.BeginRequest{Key: of("bank", "1")})
	lines := h.lines()
	if len(lines) != 6 {
		t.Fatalf("%d lines, want 6:\n%s", len(lines), h.log)
	}
	if !regexp.MustCompile(`result=refused code=PermissionDenied tenant=bank operation=pay .* principal=shop peer=`).MatchString(lines[0]) {
		t.Errorf("a principal who is refused leaves %s", lines[0])
	}
	if !strings.Contains(lines[5], "code=Unauthenticated") || strings.Contains(lines[5], "principal=") {
		t.Errorf("a stranger leaves %s", lines[5])
	}
	const warning = "level=WARN msg=\"calls are refused: their principal may not make them\" principal=shop method=/oncekeeper.v1.IdempotencyService/Begin"
	if n := strings.Count(h.log.String(), warning); n != 1 {
		t.Errorf("%d warnings in one minute, want 1:\n%s", n, h.log)
	}
	h.clock.Advance(time.Minute)
	_, _ = h.Begin(as(t, "shop"), &pb.BeginRequest{Key: of("bank", "1")})
	if !strings.Contains(h.log.String(), warning+" calls=6") {
		t.Errorf("the next minute's warning does not say how often:\n%s", h.log)
	}
}

// grantless begins, and expects no grant.
func (h *harness) grantless(t *testing.T, req *pb.BeginRequest) {
	t.Helper()
	if h.answer(t, req).GetGrant() != nil {
		t.Fatal("it was granted")
	}
}
