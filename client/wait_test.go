package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// other holds the key as another process does.
func other(t *testing.T, w *world) (token int64) {
	t.Helper()
	rec, verdict, _ := w.apply(lifecycle.Begin{Key: key, CallID: "other", Grant: oncekeeper.Grant{Lease: fakeLease, Retention: time.Hour}})
	if verdict != lifecycle.Granted {
		t.Fatalf("the other one got %v", verdict)
	}
	return rec.Token
}

func (w *world) settleOther(token int64, body string) {
	w.apply(lifecycle.Settle{Key: key, Token: token, As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{
		Body: []byte(body), ContentType: client.ContentTypeBytes,
	}})
}

func ask(ctx context.Context, w *world, opts ...client.DoOption) (string, error) {
	got, err := client.Do(ctx, w.keeper, key, func(context.Context, *client.Attempt) ([]byte, error) {
		return nil, errors.New("it ran")
	}, opts...)
	return string(got), err
}

// Held calls share a proxy's streams with the Complete that they wait for.
func TestWaitersBeyondTheLimitPollAndTheHoldersCompleteGetsThrough(t *testing.T) {
	w := newWorld(t) // two waits, and three streams for all
	running, finish := make(chan struct{}), make(chan struct{})
	holder := background(func() error {
		_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) ([]byte, error) {
			close(running)
			<-finish
			return []byte("the holder's"), nil
		})
		return err
	})
	recv(t, running, "the holder's run")
	var waiters sync.WaitGroup
	for range 6 {
		waiters.Go(func() {
			if got, err := ask(t.Context(), w); got != "the holder's" || err != nil {
				t.Errorf("a waiter got %q, %v", got, err)
			}
		})
	}
	for range 3 { // four poll, after the second that the service asks for
		w.awaitHeld(t, 2)
		w.clock.pass(t, time.Second, 1200*time.Millisecond)
	}
	w.awaitHeld(t, 2)
	close(finish)
	if err := recv(t, holder, "the holder's return"); err != nil {
		t.Errorf("the holder got %v", err)
	}
	all := make(chan struct{})
	go func() {
		defer close(all)
		waiters.Wait()
	}()
	for {
		if _, ok := w.clock.awaitUnless(t, all, time.Second, 1200*time.Millisecond); !ok {
			break
		}
		w.clock.Advance(1200 * time.Millisecond)
	}
	if w.mostHeld != 2 {
		t.Errorf("%d calls were held at once, want 2", w.mostHeld)
	}
}

func TestAWaiterIsGivenTheAnswerAtOnce(t *testing.T) {
	w := newWorld(t)
	token := other(t, w)
	done := background(func() error {
		got, err := ask(t.Context(), w)
		if got != "the other's" {
			t.Errorf("it got %q", got)
		}
		return err
	})
	w.awaitHeld(t, 1)
	w.settleOther(token, "the other's")
	if err := recv(t, done, "the answer"); err != nil {
		t.Error(err)
	}
	if len(w.begins) != 2 || w.begins[0].GetWait() != nil || w.begins[1].GetWait().AsDuration() != 10*time.Second {
		t.Errorf("it asked %v, want once at once and once to be held for 10 s", w.begins)
	}
}

func TestAWaitThatIsOverMakesRoomForTheNext(t *testing.T) {
	w := newWorld(t, client.WithMaxWaits(1))
	for range 3 {
		token := other(t, w)
		done := background(func() error {
			_, err := ask(t.Context(), w)
			return err
		})
		w.awaitHeld(t, 1)
		w.settleOther(token, "x")
		if err := recv(t, done, "the answer"); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		delete(w.records, key)
		w.mu.Unlock()
	}
}

func TestAWaitIsAskedForInSlicesAndEnds(t *testing.T) {
	w := newWorld(t)
	other(t, w)
	done := background(func() error {
		_, err := ask(t.Context(), w, client.WithWait(15*time.Second))
		return err
	})
	w.awaitHeld(t, 1)
	w.clock.Advance(10 * time.Second)
	w.clock.await(t, 5*time.Second, 5*time.Second)
	w.clock.Advance(5 * time.Second)
	err := recv(t, done, "Do's return")
	if delay, ok := client.RetryDelay(err); !errors.Is(err, oncekeeper.ErrInProgress) || status.Code(err) != codes.Aborted || !ok || delay != time.Second {
		t.Errorf("Do = %v with delay %v, want ErrInProgress after 1 s", err, delay)
	}
	if op := client.Operation(err); op != key.Operation {
		t.Errorf("its operation is %q", op)
	}
}

func TestNoWaitIsAnsweredAtOnce(t *testing.T) {
	w := newWorld(t)
	other(t, w)
	if _, err := ask(t.Context(), w, client.WithWait(0)); !errors.Is(err, oncekeeper.ErrInProgress) || w.seen("Begin") != 1 {
		t.Errorf("Do = %v after %d Begins", err, w.seen("Begin"))
	}
	result, err := w.keeper.Run(t.Context(), client.Request{Key: key}, nil)
	if err != nil || result.Ran || result.InProgress == nil || result.InProgress.RetryDelay != time.Second {
		t.Errorf("Run = %+v, %v, want it in progress", result, err)
	}
}

func TestAWaitWithoutADeadlineIsBounded(t *testing.T) {
	w := newWorld(t, client.WithMaxWait(4*time.Second))
	other(t, w)
	done := background(func() error {
		_, err := ask(t.Context(), w)
		return err
	})
	w.awaitHeld(t, 1)
	w.clock.pass(t, 4*time.Second, 4*time.Second)
	if err := recv(t, done, "Do's return"); !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Errorf("Do = %v, want ErrInProgress", err)
	}
}

func TestAWaitEndsBeforeTheDeadlineDoes(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(2*time.Hour))
	w.apply(lifecycle.Begin{Key: key, CallID: "other", Grant: oncekeeper.Grant{Lease: 2 * time.Hour}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	done := background(func() error {
		_, err := ask(ctx, w)
		return err
	})
	w.awaitHeld(t, 1)
	w.clock.Advance(time.Hour - 5*time.Second)
	w.clock.pass(t, 3*time.Second, 4500*time.Millisecond)
	if err := recv(t, done, "Do's return"); !errors.Is(err, oncekeeper.ErrInProgress) || ctx.Err() != nil {
		t.Errorf("Do = %v, want ErrInProgress while there is time to say so", err)
	}
}

func TestAWaiterThatHangsUpLeavesAtOnce(t *testing.T) {
	for name, waits := range map[string]int{"held": 1, "polling": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, client.WithMaxWaits(waits))
			other(t, w)
			ctx, hangUp := context.WithCancel(t.Context())
			done := background(func() error {
				_, err := ask(ctx, w)
				return err
			})
			if waits > 0 {
				w.awaitHeld(t, 1)
			} else {
				w.clock.await(t, time.Second, 1200*time.Millisecond)
			}
			hangUp()
			if err := recv(t, done, "Do's return"); !errors.Is(err, context.Canceled) {
				t.Errorf("Do = %v, want context.Canceled", err)
			}
		})
	}
}

func TestAServiceThatDoesNotHoldTheCallIsNotAskedInAHotLoop(t *testing.T) {
	w := newWorld(t)
	token := other(t, w)
	w.declineToHold = true
	done := background(func() error {
		got, err := ask(t.Context(), w)
		if got != "the other's" {
			t.Errorf("it got %q", got)
		}
		return err
	})
	for range 3 {
		w.clock.pass(t, time.Second, 1200*time.Millisecond)
	}
	w.clock.await(t, time.Second, 1200*time.Millisecond)
	if n := w.seen("Begin"); n != 5 {
		t.Errorf("%d Begins in three seconds, want one at once, one to be held, and one a second", n)
	}
	w.settleOther(token, "the other's")
	w.clock.pass(t, time.Second, 1200*time.Millisecond)
	if err := recv(t, done, "the answer"); err != nil {
		t.Error(err)
	}
}

func TestAServiceThatGivesNoDelayIsAskedEverMoreRarely(t *testing.T) {
	w := newWorld(t, client.WithMaxWaits(0), client.WithBackoff(50*time.Millisecond, time.Hour))
	w.answer = &pb.BeginResponse{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := ask(t.Context(), w); !errors.Is(err, oncekeeper.ErrInProgress) {
			t.Errorf("Do = %v", err)
		}
	}()
	for {
		d, ok := w.clock.awaitUnless(t, done, 1, time.Minute)
		if !ok {
			break
		}
		if d != client.DefaultCallTimeout { // that is a call under way
			w.clock.Advance(d)
		}
		w.clock.awaitNone(t, d, d)
	}
	if n := w.seen("Begin"); n > 100 {
		t.Errorf("it was asked %d times in a minute", n)
	}
}

func TestBeginIsNotHeldBeyondTheLimit(t *testing.T) {
	w := newWorld(t, client.WithMaxWaits(0))
	other(t, w)
	answer, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key, Wait: time.Second})
	if err != nil || answer.InProgress == nil || w.begins[0].GetWait() != nil {
		t.Errorf("Begin = %+v, %v, asked %v", answer, err, w.begins[0])
	}
}
