package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
)

// sharedStore is a store that others change too: whoever calls it past the server.
type sharedStore struct {
	storage.Store
	reads, keys atomic.Int64
}

func (s *sharedStore) Shared() bool { return true }

func (s *sharedStore) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	s.reads.Add(1)
	s.keys.Store(int64(len(keys)))
	return s.Store.Read(ctx, keys...)
}

func startShared(t *testing.T) (*harness, *sharedStore) {
	t.Helper()
	var shared *sharedStore
	h := start(t, setup{store: func(inner storage.Store) storage.Store {
		shared = &sharedStore{Store: inner}
		return shared
	}})
	return h, shared
}

// lineUp begins in the background, and returns once it sleeps as one of n.
func (h *harness) lineUp(t *testing.T, n int, req *pb.BeginRequest) <-chan *pb.BeginResponse {
	t.Helper()
	answer := make(chan *pb.BeginResponse, 1)
	go func() {
		res, err := h.Begin(testContext(t), req)
		if err != nil {
			t.Errorf("a waiter got %v", err)
		}
		answer <- res
	}()
	h.server.AwaitAsleep(testContext(t), n)
	return answer
}

// pass moves the clock on in steps until the answer is there.
func (h *harness) pass(t *testing.T, answer <-chan *pb.BeginResponse) *pb.BeginResponse {
	t.Helper()
	for range 1000 {
		select {
		case res := <-answer:
			return res
		case <-time.After(2 * time.Millisecond):
			h.clock.Advance(5 * time.Millisecond)
		}
	}
	t.Fatal("a waiter was not told what another server did")
	return nil
}

func TestAWaiterIsToldWhatAnotherServerSettled(t *testing.T) {
	h, elsewhere := startShared(t)
	token := h.grant(t, begin("1", "holder")).GetFencingToken()
	answer := h.lineUp(t, 1, waiting("1", "waiter", 10*time.Second))
	res := elsewhere.Apply(t.Context(), lifecycle.Settle{
		Key: oncekeeper.Key{Tenant: "acme", Operation: "pay", ID: "1"}, Token: token,
		As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: []byte("paid")},
	})[0]
	if res.Refusal() != nil {
		t.Fatal(res.Refusal())
	}
	if got := h.pass(t, answer).GetOutcome().GetResponse().GetBody(); string(got) != "paid" {
		t.Errorf("got %q, want the outcome", got)
	}
}

func TestAWaiterGetsTheGrantThatAnotherServerGaveItsCall(t *testing.T) {
	h, elsewhere := startShared(t)
	key := oncekeeper.Key{Tenant: "acme", Operation: "pay", ID: "1"}
	token := h.grant(t, begin("1", "holder")).GetFencingToken()
	answer := h.lineUp(t, 1, waiting("1", "waiter", 10*time.Second))
	results := elsewhere.Apply(t.Context(),
		lifecycle.Settle{Key: key, Token: token, As: oncekeeper.SettledRetryable, Status: &oncekeeper.Status{Code: 9}},
		lifecycle.Begin{Key: key, Fingerprint: []byte("f"), CallID: "waiter", Grant: oncekeeper.Grant{
			Lease: time.Minute, Retention: time.Hour, UnsettledRetention: time.Hour,
		}})
	if results[1].Verdict != lifecycle.Granted {
		t.Fatalf("elsewhere: %v", results[1].Verdict)
	}
	if got := h.pass(t, answer).GetGrant().GetFencingToken(); got != results[1].Record.Token {
		t.Errorf("got token %d, want that of the call's own grant, %d", got, results[1].Record.Token)
	}
}

func TestWaitingCostsOneReadForAllAndNoneWhereNobodyWaits(t *testing.T) {
	h, store := startShared(t)
	var answers []<-chan *pb.BeginResponse
	var tokens []int64
	ids := []string{"1", "2", "3"}
	for i, id := range ids {
		tokens = append(tokens, h.grant(t, begin(id, "holder")).GetFencingToken())
		answers = append(answers,
			h.lineUp(t, 2*i+1, waiting(id, "a", 10*time.Second)), h.lineUp(t, 2*i+2, waiting(id, "b", 10*time.Second)))
	}
	before := store.reads.Load()
	moved := h.clock.Monotonic()
	for store.reads.Load() < before+5 {
		h.clock.Advance(time.Millisecond)
		time.Sleep(200 * time.Microsecond)
	}
	if took := h.clock.Monotonic() - moved; took < 4*25*time.Millisecond {
		t.Errorf("5 reads in %v: more than 40 a second", took)
	}
	if n := store.keys.Load(); n != 3 {
		t.Errorf("a read was of %d keys, want 3", n)
	}
	for i, id := range ids {
		h.complete(t, id, tokens[i], "done")
	}
	for _, answer := range answers {
		<-answer
	}
	h.clock.Advance(time.Second) // the read under way, if any, is the last
	time.Sleep(10 * time.Millisecond)
	before = store.reads.Load()
	for range 100 {
		h.clock.Advance(50 * time.Millisecond)
	}
	if n := store.reads.Load() - before; n > 1 {
		t.Errorf("%d reads where nobody waits", n)
	}
}
