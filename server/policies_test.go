package server_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// under serves by a policy that the test changes.
func under(t *testing.T, on records, text string) (h *harness, change func(text string)) {
	t.Helper()
	live := policy.NewLive(policies(t, text))
	h = start(t, on, setup{config: func(cfg *server.Config) { cfg.Policy, cfg.Policies = nil, live }})
	return h, func(text string) {
		t.Helper()
		live.Use(policies(t, text))
	}
}

func policies(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const (
	generous = "defaults: {lease: 10m, retention: 48h, max_response_bytes: 1MiB}"
	strict   = "defaults: {lease: 5s, max_lease: 5s, retention: 1h, max_retention: 1h, max_response_bytes: 16}"
)

func TestAGrantKeepsItsLeaseAndRetentionWhateverThePolicyBecomes(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, change := under(t, on, generous)
		g := h.grant(t, begin("1", "a"))
		change(strict)
		h.advance(9 * time.Minute)
		renewed, err := h.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: g.GetFencingToken()})
		if err != nil || renewed.GetLease().AsDuration() != 10*time.Minute {
			t.Fatalf("renewed as granted it has %v, %v; want 10m", renewed.GetLease().AsDuration(), err)
		}
		renewed, err = h.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Lease: wire(time.Hour)})
		if err != nil || renewed.GetLease().AsDuration() != 10*time.Minute {
			t.Fatalf("asking for more it has %v, %v; want the 10m that it had", renewed.GetLease().AsDuration(), err)
		}
		res, err := h.Complete(testContext(t), &pb.CompleteRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Response: &pb.StoredResponse{Body: []byte("paid")}})
		if kept := res.GetExpireTime().AsTime().Sub(epoch.Add(9 * time.Minute)); err != nil || kept != 48*time.Hour {
			t.Errorf("settled it is kept for %v, %v; want the 48h granted", kept, err)
		}
		if next := h.grant(t, begin("2", "b")); next.GetLease().AsDuration() != 5*time.Second || next.GetMaxResponseBytes() != 16 {
			t.Errorf("a grant after the change is %v, want a lease of 5s and 16 bytes", next)
		}
	})
}

func TestAGrantKeepsItsNumberOfAttemptsWhateverThePolicyBecomes(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, change := under(t, on, "defaults: {max_attempts: 1}")
		one := h.grant(t, begin("1", "a"))
		change("defaults: {max_attempts: 0}")
		h.fail(t, "1", one.GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		res, err := h.Begin(testContext(t), begin("1", "b"))
		if err != nil || res.GetOutcome().GetOrigin() != pb.Outcome_ORIGIN_EXHAUSTED {
			t.Errorf("after the one attempt granted: %v, %v; want exhausted", res, err)
		}

		free := h.grant(t, begin("2", "a"))
		change("defaults: {max_attempts: 1}")
		h.fail(t, "2", free.GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		if next := h.grant(t, begin("2", "b")); next.GetAttemptNumber() != 2 {
			t.Errorf("after a grant without limit: %v, want attempt 2", next)
		}
	})
}

func TestAGrantKeepsWhatFollowsItsLeaseWhateverThePolicyBecomes(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, change := under(t, on, "defaults: {on_lease_expiry: hold}")
		h.grant(t, begin("held", "a"))
		change("defaults: {on_lease_expiry: take_over}")
		h.grant(t, begin("free", "a"))
		change("defaults: {on_lease_expiry: hold}")
		h.advance(30 * time.Second)
		if res, err := h.Begin(testContext(t), begin("held", "b")); err != nil || res.GetUnresolved() == nil {
			t.Errorf("granted to be held: %v, %v; want unresolved", res, err)
		}
		if next := h.grant(t, begin("free", "b")); !next.GetTakeover() {
			t.Errorf("granted to be taken over: %v, want a takeover", next)
		}
	})
}

// A smaller limit holds at once, also for a holder that was told a larger one: what
// it may always do is settle without the body.
func TestALimitThatShrinksLeavesAHolderAWayToSettle(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, change := under(t, on, generous)
		g := h.grant(t, begin("1", "a"))
		change(strict)
		settle := func(r *pb.StoredResponse) error {
			_, err := h.Complete(testContext(t), &pb.CompleteRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Response: r})
			return err
		}
		wantReason(t, settle(&pb.StoredResponse{Body: make([]byte, 17)}), codes.InvalidArgument, "INVALID_REQUEST")
		if err := settle(&pb.StoredResponse{Omitted: true}); err != nil {
			t.Errorf("settled as omitted: %v", err)
		}
	})
}

func TestEachItemOfABatchHasThePolicyOfItsOwnKey(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h, _ := under(t, on, "rules: [{name: slow, operation: pay, lease: 10m}, {name: acme, tenant: acme, lease: 1m}]")
		other := &pb.Key{Tenant: "acme", Operation: "get", Id: "1"}
		res, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{begin("1", "a"), {Key: other}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{10 * time.Minute, time.Minute} {
			if got := res.GetResults()[i].GetResponse().GetGrant().GetLease().AsDuration(); got != want {
				t.Errorf("item %d has a lease of %v, want %v", i, got, want)
			}
		}
	})
}

// turning gives another set each time that it is asked.
type turning struct {
	sets  []*policy.Set
	asked atomic.Int64
}

func (f *turning) Current() *policy.Set {
	return f.sets[int(f.asked.Add(1))%len(f.sets)]
}

func TestACallIsJudgedByOnePolicyFromItsBeginningToItsEnd(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		source := &turning{sets: []*policy.Set{policies(t, generous), policies(t, strict)}}
		h := start(t, on, setup{config: func(cfg *server.Config) { cfg.Policy, cfg.Policies = nil, source }})
		whole := func(name string, g *pb.Grant) {
			t.Helper()
			lease, limit := g.GetLease().AsDuration(), g.GetMaxResponseBytes()
			if (lease != 10*time.Minute || limit != 1<<20) && (lease != 5*time.Second || limit != 16) {
				t.Errorf("%s gives a lease of %v and %d bytes, which are of two policies", name, lease, limit)
			}
		}
		for i := range 4 {
			whole("Begin", h.grant(t, begin(fmt.Sprint(i), "a")))
		}
		res, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{begin("5", "a"), begin("6", "a"), begin("7", "a")}})
		if err != nil {
			t.Fatal(err)
		}
		limits := map[int64]bool{}
		for _, item := range res.GetResults() {
			g := item.GetResponse().GetGrant()
			whole("BatchBegin", g)
			limits[g.GetMaxResponseBytes()] = true
		}
		if len(limits) != 1 {
			t.Errorf("the items of one batch have the limits %v of two policies", limits)
		}
	})
}

func TestOnePolicyAndManyAreNotBothTaken(t *testing.T) {
	p := policy.Default()
	if _, err := server.New(server.Config{Store: broken{}, Policy: &p, Policies: policy.BuiltIn()}); err == nil {
		t.Error("Policy and Policies are taken together")
	}
}
