package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// impatient is an inbox whose delays pass at once, on a clock of their own.
func impatient(t *testing.T, keeper *client.Client, log *strings.Builder, req client.Request) *inbox.Inbox {
	t.Helper()
	delays := clock.NewManual(oncetest.Epoch)
	go func() {
		for delays.AwaitTimers(t.Context(), 1) == nil {
			delays.Advance(inbox.DefaultMaxDelay)
		}
	}()
	i, err := inbox.New(keeper, inbox.Config{
		Tenant: "acme", Subscriber: "invoices", Request: req, Clock: delays, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestWhoeverKeepsOrderWaitsForTheOtherConsumer(t *testing.T) {
	s := subscribe(t, client.Request{})
	var waited inbox.Result
	var waiter sync.WaitGroup
	r := s.Handle(t.Context(), m, func(context.Context, *client.Attempt) error {
		waiter.Go(func() { waited = s.HandleWait(t.Context(), m, s.giving(nil)) })
		// The holder's run time and renewal, and of the waiter the call's time-out, and
		// at the service the end of the wait and of the lease.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return s.keeper.Clock.AwaitTimers(ctx, 5)
	})
	waiter.Wait()
	must(t, "the first", r, inbox.Handled, inbox.NoReason)
	must(t, "whoever waited", waited, inbox.Duplicate, inbox.NoReason)
	if s.runs != 0 {
		t.Error("the waiter ran it too")
	}
}

func TestALogIsHandledInOrderThroughFailuresAndReplays(t *testing.T) {
	var told strings.Builder
	i := impatient(t, oncetest.Start(t).Client(), &told, client.Request{MaxAttempts: 3})
	var effects []int
	letters := map[int]inbox.Reason{}
	tries := map[int]int{}
	consume := func(from, to int) {
		for offset := from; offset < to; offset++ {
			r := i.HandleWait(t.Context(), inbox.Message{ID: fmt.Sprint("orders/0/", offset)}, func(context.Context, *client.Attempt) error {
				tries[offset]++
				switch {
				case offset == 6:
					return oncekeeper.NotApplied(errors.New("never in the mood"))
				case offset == 4:
					return oncekeeper.Final(errors.New("no such customer"))
				case offset%3 == 2 && tries[offset] < 3:
					return oncekeeper.NotApplied(errors.New("not yet"))
				}
				effects = append(effects, offset)
				return nil
			})
			switch r.Verdict {
			case inbox.Later:
				t.Fatalf("offset %d is to come later: %v", offset, r.Err)
			case inbox.DeadLetter:
				letters[offset] = r.Reason
			}
		}
	}
	consume(0, 8)
	consume(2, 10) // the commit was lost: the log is read again
	if want := []int{0, 1, 2, 3, 5, 7, 8, 9}; !slices.Equal(effects, want) {
		t.Errorf("the effects are %v, want %v", effects, want)
	}
	if len(letters) != 2 || letters[4] != inbox.Final || letters[6] != inbox.Exhausted || tries[6] != 3 || tries[4] != 1 {
		t.Errorf("the dead letters are %v, after %v tries; want 4 (final) and 6 (exhausted)", letters, tries)
	}
	if got := strings.Count(told.String(), "reason=failed"); got != 9 {
		t.Errorf("the logger was told of %d failures, want 9:\n%s", got, told.String())
	}
}

func TestAnOutageIsWaitedOutAndCountsNoAttempt(t *testing.T) {
	keeper := oncetest.Start(t)
	var calls atomic.Int64
	down := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if calls.Add(1) <= 20 {
			return status.Error(codes.Unavailable, "away")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c := client.New(keeper.Dial(grpc.WithUnaryInterceptor(down)), client.WithClock(keeper.Clock), client.WithRetryBudget(0, 0))
	var told strings.Builder
	i := impatient(t, c, &told, client.Request{MaxAttempts: 1})
	must(t, "without waiting", i.Handle(t.Context(), m, nil), inbox.Later, inbox.Unavailable)
	r := i.HandleWait(t.Context(), m, func(_ context.Context, a *client.Attempt) error {
		if a.Number() != 1 {
			t.Errorf("it is attempt %d", a.Number())
		}
		return nil
	})
	must(t, "after the outage", r, inbox.Handled, inbox.NoReason)
	if strings.Count(told.String(), "reason=unavailable") == 0 {
		t.Errorf("the logger was not told:\n%s", told.String())
	}
}

func TestWhoeverStopsWaitingIsToldSo(t *testing.T) {
	s := subscribe(t, client.Request{})
	stopping := errors.New("the partition is another's")
	ctx, cancel := context.WithCancelCause(t.Context())
	var waited inbox.Result
	r := s.Handle(t.Context(), m, func(context.Context, *client.Attempt) error {
		var waiter sync.WaitGroup
		waiter.Go(func() { waited = s.HandleWait(ctx, m, s.giving(nil)) })
		waits, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		err := s.keeper.Clock.AwaitTimers(waits, 5)
		cancel(stopping)
		waiter.Wait()
		return err
	})
	must(t, "the first", r, inbox.Handled, inbox.NoReason)
	must(t, "whoever waited", waited, inbox.Later, inbox.Unavailable)
	if !errors.Is(waited.Err, stopping) || s.runs != 0 {
		t.Errorf("it gives %v after %d runs; want %v", waited.Err, s.runs, stopping)
	}
}

// A broker that delivers everything several times, in any order, to consumers that
// come and go.
func TestABrokerThatRedeliversWithoutEndHasEachMessageHandledOnce(t *testing.T) {
	const messages, consumers = 40, 4
	s := subscribe(t, client.Request{MaxAttempts: 5})
	queue := make(chan int, 3*messages)
	for n := range 3 * messages {
		queue <- (n * 7) % messages
	}
	var mu sync.Mutex
	handled, failed, settled := map[int]int{}, map[int]bool{}, 0
	var all sync.WaitGroup
	for range consumers {
		all.Go(func() {
			for n := range queue {
				r := s.Handle(t.Context(), inbox.Message{ID: fmt.Sprint("m-", n)}, func(context.Context, *client.Attempt) error {
					mu.Lock()
					defer mu.Unlock()
					if n%5 == 0 && !failed[n] {
						failed[n] = true
						return oncekeeper.NotApplied(errors.New("not yet"))
					}
					handled[n]++
					return nil
				})
				mu.Lock()
				switch r.Verdict {
				case inbox.Later:
					queue <- n // there is room: this one was taken out
				case inbox.DeadLetter:
					t.Errorf("message %d is a dead letter: %v", n, r.Err)
				}
				if r.Verdict != inbox.Later {
					settled++
				}
				if settled == 3*messages {
					settled++
					close(queue)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for n := range messages {
		if handled[n] != 1 {
			t.Errorf("message %d was handled %d times", n, handled[n])
		}
	}
}
