package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
)

// maxWatch is the longest that a server leaves the keys that are waited for alone.
const maxWatch = 100 * time.Millisecond

// awaitPending returns once n of the server's timers are pending: of each waiter
// its time-out, of each key that is waited for its alarm, and of the watch the
// pause between two looks.
func (h *harness) awaitPending(t *testing.T, n int) {
	t.Helper()
	if err := h.clock.AwaitTimers(testContext(t), n); err != nil {
		t.Fatalf("waiting for %d timers: %v", n, err)
	}
}

// look has the server look once at the one key that n wait for.
func (h *harness) look(t *testing.T, n int) {
	t.Helper()
	h.awaitPending(t, n+2)
	h.clock.Advance(maxWatch)
}

func TestAWaiterIsToldWhatWasSettledAtAnotherServer(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		here, there := start(t, on, setup{}), start(t, on, setup{})
		for name, c := range map[string]struct {
			settle func(id string, token int64)
			right  func(*pb.BeginResponse) bool
		}{
			"completed": {
				func(id string, token int64) { there.complete(t, id, token, "paid") },
				func(res *pb.BeginResponse) bool { return string(res.GetOutcome().GetResponse().GetBody()) == "paid" },
			},
			"failed": {
				func(id string, token int64) { there.fail(t, id, token, pb.FailRequest_DISPOSITION_FINAL) },
				func(res *pb.BeginResponse) bool { return res.GetOutcome().GetStatus().GetCode() == 9 },
			},
			"released": {
				func(id string, token int64) { there.fail(t, id, token, pb.FailRequest_DISPOSITION_RETRYABLE) },
				func(res *pb.BeginResponse) bool {
					return res.GetGrant().GetAttemptNumber() == 2 && !res.GetGrant().GetTakeover()
				},
			},
			"unknown": {
				func(id string, token int64) { there.fail(t, id, token, pb.FailRequest_DISPOSITION_UNKNOWN) },
				func(res *pb.BeginResponse) bool {
					return res.GetGrant().GetAttemptNumber() == 2 && res.GetGrant().GetTakeover()
				},
			},
		} {
			t.Run(name, func(t *testing.T) {
				token := there.grant(t, begin(name, "holder")).GetFencingToken()
				answers := here.wait(t, name, 1)
				c.settle(name, token)
				here.look(t, 1)
				if a := <-answers; a.err != nil || !c.right(a.res) {
					t.Errorf("the waiter got %v, %v", a.res, a.err)
				}
			})
		}
	})
}

// A waiter's own request is judged at its wake-up too: the key it waits for may have
// become another request's meanwhile.
func TestAWaiterIsToldThatItsKeyWasUsedForAnotherRequestMeanwhile(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		here, there := start(t, on, setup{}), operate(t, on, nil)
		for name, settle := range map[string]func(id string, token int64){
			"completed": func(id string, token int64) { there.complete(t, id, token, "another's answer") },
			"failed":    func(id string, token int64) { there.fail(t, id, token, pb.FailRequest_DISPOSITION_FINAL) },
			"released":  func(id string, token int64) { there.fail(t, id, token, pb.FailRequest_DISPOSITION_RETRYABLE) },
			"unknown":   func(id string, token int64) { there.fail(t, id, token, pb.FailRequest_DISPOSITION_UNKNOWN) },
			"running":   func(string, int64) {},
		} {
			t.Run(name, func(t *testing.T) {
				there.grant(t, begin(name, "holder"))
				answers := here.wait(t, name, 2)
				if _, err := there.DeleteRecord(testContext(t), &pb.DeleteRecordRequest{
					Key: key(name), Etag: there.look(t, name).GetEtag(), Force: true, Reason: "sent by mistake",
				}); err != nil {
					t.Fatal(err)
				}
				another := begin(name, "another")
				another.Fingerprint = []byte("another")
				settle(name, there.grant(t, another).GetFencingToken())
				here.look(t, 2)
				for range 2 {
					a := <-answers
					wantReason(t, a.err, codes.FailedPrecondition, "FINGERPRINT_MISMATCH")
				}
			})
		}
	})
}

func TestAWaiterGetsTheGrantThatAnotherServerGaveItsCall(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		here, there := start(t, on, setup{}), start(t, on, setup{})
		token := there.grant(t, begin("1", "holder")).GetFencingToken()
		answers := here.wait(t, "1", 1)
		there.fail(t, "1", token, pb.FailRequest_DISPOSITION_RETRYABLE)
		own := there.grant(t, begin("1", "waiter-0")) // the same call, made once more there
		here.look(t, 1)
		if a := <-answers; a.err != nil || a.res.GetGrant().GetFencingToken() != own.GetFencingToken() {
			t.Errorf("got %v, %v; want the grant that the call has, %v", a.res, a.err, own)
		}
	})
}

func TestAWaiterWaitsOnForTheGrantThatAnotherServerGave(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		here, there := start(t, on, setup{}), start(t, on, setup{})
		token := there.grant(t, begin("1", "holder")).GetFencingToken()
		answers := here.wait(t, "1", 3)
		there.fail(t, "1", token, pb.FailRequest_DISPOSITION_RETRYABLE)
		token = there.grant(t, begin("1", "next")).GetFencingToken()
		here.look(t, 3)
		here.awaitPending(t, 5) // it has looked, and nobody was answered
		there.complete(t, "1", token, "by the next")
		here.look(t, 3)
		for range 3 {
			if a := <-answers; string(a.res.GetOutcome().GetResponse().GetBody()) != "by the next" {
				t.Errorf("a waiter got %v, %v; want the outcome", a.res, a.err)
			}
		}
	})
}

func TestALeasesEndGrantsOneOfTheWaitersOfAllServers(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		servers := []*harness{start(t, on, setup{}), start(t, on, setup{})}
		held := begin("1", "holder")
		held.Lease = wire(5 * time.Second)
		token := servers[0].grant(t, held).GetFencingToken()
		type told struct {
			answer
			at int
		}
		answers := make(chan told, 6)
		for at, s := range servers {
			for i := range 3 {
				go func() {
					res, err := s.Begin(testContext(t), waiting("1", fmt.Sprintf("waiter-%d-%d", at, i), 10*time.Second))
					answers <- told{answer{res, err}, at}
				}()
			}
			s.asleep(t, 3)
		}
		on.advance(5 * time.Second)
		for _, s := range servers {
			s.clock.Advance(5 * time.Second)
		}
		first := <-answers
		next := first.res.GetGrant()
		if !next.GetTakeover() || next.GetFencingToken() <= token {
			t.Fatalf("the first waiter got %v, %v; want a takeover with a greater token", first.res, first.err)
		}
		winner, other := servers[first.at], servers[1-first.at]
		winner.asleep(t, 2)
		other.asleep(t, 3)
		winner.complete(t, "1", next.GetFencingToken(), "by the one")
		other.look(t, 3)
		for range 5 {
			if a := <-answers; string(a.res.GetOutcome().GetResponse().GetBody()) != "by the one" {
				t.Errorf("another waiter got %v, %v; want the outcome", a.res, a.err)
			}
		}
	})
}

func TestALeaseRenewedAtAnotherServerKeepsItsWaiters(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		here, there := start(t, on, setup{}), start(t, on, setup{})
		held := begin("1", "holder")
		held.Lease = wire(5 * time.Second)
		token := there.grant(t, held).GetFencingToken()
		answers := here.wait(t, "1", 2)
		if _, err := there.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: token, Lease: wire(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		here.advance(5 * time.Second) // the lease that this server knows of is over
		here.awaitPending(t, 4)
		here.asleep(t, 2)
		here.advance(5 * time.Second) // and now their wait
		for range 2 {
			if a := <-answers; a.res.GetInProgress() == nil {
				t.Errorf("under a renewed lease a waiter got %v, %v", a.res, a.err)
			}
		}
	})
}

// late is a store that holds one Apply up, once it is told to.
type late struct {
	storage.Store
	armed         atomic.Bool
	entered, gate chan struct{}
}

func (s *late) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	if s.armed.CompareAndSwap(true, false) {
		close(s.entered)
		<-s.gate
	}
	return s.Store.Apply(ctx, cmds...)
}

func TestWaitersAreWatchedForOnceTheOneWhoAskedForThemIsGranted(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		store := &late{entered: make(chan struct{}), gate: make(chan struct{})}
		here, there := start(t, on, setup{store: func(s storage.Store) storage.Store { store.Store = s; return store }}), start(t, on, setup{})
		token := there.grant(t, begin("1", "holder")).GetFencingToken()
		answers := here.wait(t, "1", 2)
		there.fail(t, "1", token, pb.FailRequest_DISPOSITION_RETRYABLE)
		store.armed.Store(true)
		here.look(t, 2)
		<-store.entered // one asks on behalf of both, and the store takes its time
		for range 3 {
			here.awaitPending(t, 2+1)
			here.clock.Advance(maxWatch)
		}
		close(store.gate)
		first := <-answers
		here.asleep(t, 1)
		there.complete(t, "1", first.res.GetGrant().GetFencingToken(), "paid")
		here.look(t, 1)
		if a := <-answers; string(a.res.GetOutcome().GetResponse().GetBody()) != "paid" {
			t.Errorf("the other waiter got %v, %v; want the outcome", a.res, a.err)
		}
	})
}

// counted counts what waiting asks of a store.
type counted struct {
	storage.Store
	reads, keys atomic.Int64
}

func (s *counted) Read(ctx context.Context, keys ...oncekeeper.Key) (storage.Snapshot, error) {
	s.reads.Add(1)
	s.keys.Store(int64(len(keys)))
	return s.Store.Read(ctx, keys...)
}

func TestWaitingCostsOneReadForAllAndNoneWhereNobodyWaits(t *testing.T) {
	onEverySharedStore(t, func(t *testing.T, on records) {
		var store *counted
		h := start(t, on, setup{store: func(inner storage.Store) storage.Store {
			store = &counted{Store: inner}
			return store
		}})
		const keys, each = 3, 2
		answers := make(chan answer, keys*each)
		tokens := map[string]int64{}
		for i := range keys {
			id := fmt.Sprint(i)
			tokens[id] = h.grant(t, begin(id, "holder")).GetFencingToken()
			for range each {
				go func() {
					res, err := h.Begin(testContext(t), waiting(id, "", 10*time.Second))
					answers <- answer{res, err}
				}()
			}
		}
		h.asleep(t, keys*each)
		before := store.reads.Load()
		for range 1000 { // a second, by the millisecond
			h.awaitPending(t, keys*each+keys+1)
			h.clock.Advance(time.Millisecond)
		}
		if n := store.reads.Load() - before; n < 9 || n > 40 {
			t.Errorf("%d reads in a second, want 10, and never more than 40", n)
		}
		if n := store.keys.Load(); n != keys {
			t.Errorf("a read was of %d keys, want %d", n, keys)
		}
		for id, token := range tokens {
			h.complete(t, id, token, "done")
		}
		for range keys * each {
			<-answers
		}
		// Roused with nobody there the watch pauses once, which is the one timer left,
		// and looks at nothing.
		for round := range 10 {
			h.server.RouseWatch()
			h.awaitPending(t, 1)
			if round == 1 { // a look under way before the first pause is over
				before = store.reads.Load()
			}
			h.clock.Advance(maxWatch)
		}
		h.server.RouseWatch()
		h.awaitPending(t, 1)
		if n := store.reads.Load() - before; n > 0 {
			t.Errorf("%d reads where nobody waits", n)
		}
	})
}
