package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
)

// asked counts what the server asks of its store.
type asked struct {
	storage.Store
	begins atomic.Int64
}

func (a *asked) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	for _, c := range cmds {
		if _, ok := c.(lifecycle.Begin); ok {
			a.begins.Add(1)
		}
	}
	return a.Store.Apply(ctx, cmds...)
}

type answer struct {
	res *pb.BeginResponse
	err error
}

// wait starts n waiting Begins of id, each with a call id of its own, and returns
// once all of them sleep.
func (h *harness) wait(t *testing.T, id string, n int) <-chan answer {
	t.Helper()
	answers := make(chan answer, n)
	for i := range n {
		go func() {
			res, err := h.Begin(testContext(t), waiting(id, fmt.Sprintf("waiter-%d", i), 10*time.Second))
			answers <- answer{res, err}
		}()
	}
	h.asleep(t, n)
	return answers
}

// asleep returns once n waiters in all sleep: each has set its own time-out, and
// its key's alarm is set.
func (h *harness) asleep(t *testing.T, n int) {
	t.Helper()
	if err := h.server.AwaitAsleep(testContext(t), n); err != nil {
		t.Fatalf("waiting for %d waiters to sleep: %v", n, err)
	}
}

func TestWaitersAreWokenByTheSettlementAndAllGetTheSameAnswer(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		var store *asked
		h := start(t, on, setup{store: func(s storage.Store) storage.Store { store = &asked{Store: s}; return store }})
		g := h.grant(t, begin("1", "holder"))
		answers := h.wait(t, "1", 50)
		before := store.begins.Load()
		h.complete(t, "1", g.GetFencingToken(), "the answer")
		for range 50 {
			a := <-answers
			if a.err != nil || string(a.res.GetOutcome().GetResponse().GetBody()) != "the answer" {
				t.Fatalf("a waiter got %v, %v; want the outcome", a.res, a.err)
			}
		}
		if n := store.begins.Load() - before; n != 0 {
			t.Errorf("waking 50 waiters asked the store %d times, want 0", n)
		}
	})
}

func TestAReleasedKeyIsGrantedToOneWaiterAndTheOthersWaitOn(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		var store *asked
		h := start(t, on, setup{store: func(s storage.Store) storage.Store { store = &asked{Store: s}; return store }})
		g := h.grant(t, begin("1", "holder"))
		answers := h.wait(t, "1", 20)
		before := store.begins.Load()
		h.fail(t, "1", g.GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		a := <-answers
		next := a.res.GetGrant()
		if a.err != nil || next == nil || next.GetTakeover() {
			t.Fatalf("the first waiter woken got %v, %v; want a grant, no takeover", a.res, a.err)
		}
		if n := store.begins.Load() - before; n != 1 {
			t.Errorf("a release with 20 waiters asked the store %d times, want 1", n)
		}
		h.complete(t, "1", next.GetFencingToken(), "x")
		for range 19 {
			if a := <-answers; string(a.res.GetOutcome().GetResponse().GetBody()) != "x" {
				t.Fatalf("a waiter got %v, %v; want the outcome", a.res, a.err)
			}
		}
	})
}

func TestWhenTheLeaseEndsOneWaiterTakesOver(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		req := begin("1", "holder")
		req.Lease = wire(5 * time.Second)
		g := h.grant(t, req)
		answers := h.wait(t, "1", 3)
		h.advance(5 * time.Second)
		a := <-answers
		next := a.res.GetGrant()
		if a.err != nil || next == nil || !next.GetTakeover() || next.GetFencingToken() <= g.GetFencingToken() {
			t.Fatalf("after the lease's end a waiter got %v, %v; want a takeover with a greater token", a.res, a.err)
		}
		if next.GetWaited().AsDuration() != 5*time.Second {
			t.Errorf("it is told that it waited %v, want 5s", next.GetWaited().AsDuration())
		}
		h.complete(t, "1", next.GetFencingToken(), "x")
		for range 2 {
			if a := <-answers; a.res.GetOutcome() == nil {
				t.Fatalf("a waiter got %v, %v; want the outcome", a.res, a.err)
			}
		}
	})
}

func TestARenewedLeaseKeepsItsWaiters(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		req := begin("1", "holder")
		req.Lease = wire(5 * time.Second)
		g := h.grant(t, req)
		answers := h.wait(t, "1", 1)
		h.advance(4 * time.Second)
		if _, err := h.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Lease: wire(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		h.advance(4 * time.Second)
		select {
		case a := <-answers:
			t.Fatalf("a waiter got %v, %v under a renewed lease", a.res, a.err)
		default:
		}
		h.advance(2 * time.Second) // the wait of 10 s is over
		if a := <-answers; a.res.GetInProgress() == nil {
			t.Fatalf("at the end of its wait it got %v, %v; want in progress", a.res, a.err)
		}
	})
}

func TestAWaiterWithAnotherPayloadIsRefusedAtOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		h.grant(t, begin("1", "holder"))
		req := waiting("1", "other", 10*time.Second)
		req.Fingerprint = []byte("another")
		_, err := h.Begin(testContext(t), req)
		wantReason(t, err, codes.FailedPrecondition, "FINGERPRINT_MISMATCH")
	})
}

func TestAWaiterThatLeavesCostsNothingAndPassesItsTurnOn(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		g := h.grant(t, begin("1", "holder"))
		ctx, cancel := context.WithCancel(testContext(t))
		left := make(chan error, 1)
		go func() {
			_, err := h.Begin(ctx, waiting("1", "leaver", 10*time.Second))
			left <- err
		}()
		h.asleep(t, 1)
		answers := make(chan answer, 1)
		go func() {
			res, err := h.Begin(testContext(t), waiting("1", "stayer", 10*time.Second))
			answers <- answer{res, err}
		}()
		h.asleep(t, 2)
		cancel()
		if err := <-left; status.Code(err) != codes.Canceled {
			t.Fatalf("the one that left got %v", err)
		}
		h.fail(t, "1", g.GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		if a := <-answers; a.res.GetGrant() == nil {
			t.Fatalf("the one that stayed got %v, %v; want the grant", a.res, a.err)
		}
	})
}

func TestWaitersPastTheBoundAreAnsweredAtOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{waiters: 2})
		h.grant(t, begin("1", "holder"))
		h.wait(t, "1", 2)
		res, err := h.Begin(testContext(t), waiting("1", "third", 10*time.Second))
		if err != nil || res.GetInProgress() == nil {
			t.Fatalf("the third waiter of two got %v, %v; want in progress at once", res, err)
		}
		if d := res.GetInProgress().GetRetryDelay().AsDuration(); d <= 0 {
			t.Errorf("retry_delay is %v", d)
		}
	})
}

func TestAHeldKeyIsUnresolvedForItsWaitersWhenTheLeaseEnds(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		req := begin("1", "holder")
		req.Lease = wire(5 * time.Second)
		req.OnLeaseExpiry = pb.LeaseExpiry_LEASE_EXPIRY_HOLD
		g := h.grant(t, req)
		answers := h.wait(t, "1", 2)
		h.advance(5 * time.Second)
		for range 2 {
			a := <-answers
			if u := a.res.GetUnresolved(); u == nil || u.GetFencingToken() != g.GetFencingToken() {
				t.Fatalf("a waiter got %v, %v; want unresolved with the last token", a.res, a.err)
			}
		}
	})
}

func TestShutdownAnswersWaitersUnavailable(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		h.grant(t, begin("1", "holder"))
		answers := h.wait(t, "1", 5)
		if err := h.server.Shutdown(testContext(t)); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			a := <-answers
			wantReason(t, a.err, codes.Unavailable, "STORE_UNAVAILABLE")
		}
	})
}

func TestServingAfterShutdownIsNoFault(t *testing.T) {
	srv, err := server.New(server.Config{Store: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Shutdown(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := srv.Serve(bufconn.Listen(1)); err != nil {
		t.Errorf("Serve gives %v", err)
	}
}

func TestAWaitIsBoundedByThePolicy(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		h.grant(t, begin("1", "holder"))
		answers := make(chan answer, 1)
		go func() {
			res, err := h.Begin(testContext(t), waiting("1", "waiter", time.Hour))
			answers <- answer{res, err}
		}()
		h.asleep(t, 1)
		h.advance(10 * time.Second) // the default max_wait
		if a := <-answers; a.res.GetInProgress() == nil {
			t.Errorf("after the policy's 10s a wait of an hour got %v, %v", a.res, a.err)
		}
	})
}

func TestAWaitLeavesTheCallersDeadlineTimeForTheAnswer(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		h.grant(t, begin("1", "holder"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		answers := make(chan answer, 1)
		go func() {
			res, err := h.Begin(ctx, waiting("1", "waiter", 10*time.Second))
			answers <- answer{res, err}
		}()
		h.asleep(t, 1)
		h.advance(4600 * time.Millisecond) // more than nine tenths of what was left
		if a := <-answers; a.res.GetInProgress() == nil {
			t.Errorf("shortly before its deadline a waiter got %v, %v; want in progress", a.res, a.err)
		}
	})
}

func TestAWaiterWhoseOwnCallWasGrantedGetsThatGrant(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		g := h.grant(t, begin("1", "holder"))
		answers := make(chan answer, 1)
		go func() {
			res, err := h.Begin(testContext(t), waiting("1", "the same call", 10*time.Second))
			answers <- answer{res, err}
		}()
		h.asleep(t, 1)
		h.fail(t, "1", g.GetFencingToken(), pb.FailRequest_DISPOSITION_RETRYABLE)
		first := <-answers
		// The same call once more, as after a lost answer: it is its own grant.
		again, err := h.Begin(testContext(t), waiting("1", "the same call", 10*time.Second))
		if err != nil || again.GetGrant().GetFencingToken() != first.res.GetGrant().GetFencingToken() || first.res.GetGrant() == nil {
			t.Errorf("the call was granted %v, and its retry got %v, %v", first.res, again, err)
		}
	})
}

func TestWaitersInAllAreBoundedAndTheirPlacesComeFree(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{allWaiters: 2})
		for round := range 3 {
			ids := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
			var tokens []int64
			answers := make(chan answer, 2)
			for _, id := range ids {
				tokens = append(tokens, h.grant(t, begin(id, "holder")).GetFencingToken())
				go func() {
					res, err := h.Begin(testContext(t), waiting(id, "waiter", 10*time.Second))
					answers <- answer{res, err}
				}()
			}
			h.asleep(t, 2)
			h.grant(t, begin(fmt.Sprint("c", round), "holder"))
			res, err := h.Begin(testContext(t), waiting(fmt.Sprint("c", round), "third", 10*time.Second))
			if err != nil || res.GetInProgress() == nil {
				t.Fatalf("a third waiter of two got %v, %v", res, err)
			}
			for i, id := range ids {
				h.complete(t, id, tokens[i], "x")
				if a := <-answers; a.res.GetOutcome() == nil {
					t.Fatalf("a waiter got %v, %v", a.res, a.err)
				}
			}
		}
		if n := h.server.Lines(); n != 0 {
			t.Errorf("%d lines are kept for keys that nobody waits for", n)
		}
	})
}

func TestAHealthWatcherDoesNotHoldUpTheShutdown(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		watch, err := healthpb.NewHealthClient(h.conn).Watch(testContext(t), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := watch.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("health is %v, %v", first, err)
		}
		if err := h.server.Shutdown(testContext(t)); err != nil {
			t.Errorf("with a health watcher, Shutdown gives %v", err)
		}
	})
}

// stuck is a store that hangs until it is let go.
type stuck struct {
	storage.Store
	entered, gate chan struct{}
}

func (s stuck) Apply(ctx context.Context, cmds ...lifecycle.Command) []storage.Result {
	close(s.entered)
	<-s.gate
	return s.Store.Apply(ctx, cmds...)
}

func TestAStoreThatHangsDoesNotKeepTheServerFromStopping(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		s := stuck{entered: make(chan struct{}), gate: make(chan struct{})}
		h := start(t, on, setup{store: func(inner storage.Store) storage.Store { s.Store = inner; return s }})
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = h.Begin(testContext(t), begin("1", "a"))
		}()
		<-s.entered
		patience := errors.New("patience is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, patience)
		defer cancel()
		if err := h.server.Shutdown(ctx); !errors.Is(err, patience) {
			t.Errorf("Shutdown gives %v, want its context's cause", err)
		}
		close(s.gate)
		<-answered
	})
}
