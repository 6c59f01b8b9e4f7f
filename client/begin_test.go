package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// The claim was committed, its answer was lost, and the retry met its own record.
func TestALostBeginAnswerIsAskedForAgainAndRunsOnce(t *testing.T) {
	w := newWorld(t)
	lost := 0
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "Begin" && lost < 2 {
			lost++
			return errCut
		}
		return err
	}
	runs := 0
	done := background(func() error {
		_, err := client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) (int, error) {
			runs++
			if a.Number() != 1 || a.Takeover() {
				t.Errorf("attempt %d, takeover %v, want the first grant", a.Number(), a.Takeover())
			}
			return 1, nil
		})
		return err
	})
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	w.clock.pass(t, 50*time.Millisecond, 200*time.Millisecond)
	if err := recv(t, done, "Do's return"); err != nil {
		t.Errorf("Do = %v", err)
	}
	if runs != 1 || w.seen("Begin") != 3 {
		t.Errorf("%d runs after %d Begins, want 1 after 3", runs, w.seen("Begin"))
	}
	for _, b := range w.begins {
		if b.GetCallId() != w.begins[0].GetCallId() || len(b.GetCallId()) != 32 {
			t.Errorf("call ids %q and %q, want one of 128 bits", w.begins[0].GetCallId(), b.GetCallId())
		}
	}
}

func TestEachBeginHasACallIDOfItsOwn(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		if _, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	if w.begins[0].GetCallId() == w.begins[1].GetCallId() {
		t.Error("two calls share a call id")
	}
}

func TestABeginWhoseCallIsOverBeginsOnceMoreWithANewCallID(t *testing.T) {
	for name, refusals := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			left := refusals
			w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
				err := call(ctx)
				if method == "Begin" && left > 0 {
					left--
					w.mu.Lock()
					delete(w.records, key)
					w.mu.Unlock()
					return statusOf(oncekeeper.ErrAlreadySettled, wire.Details{})
				}
				return err
			}
			_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil })
			if wantErr := refusals > 1; errors.Is(err, oncekeeper.ErrAlreadySettled) != wantErr {
				t.Errorf("Do = %v", err)
			}
			if len(w.begins) != 2 || w.begins[0].GetCallId() == w.begins[1].GetCallId() {
				t.Errorf("%d Begins, want two with two call ids", len(w.begins))
			}
		})
	}
}

func TestTextThatIsNotUTF8IsAnInvalidRequest(t *testing.T) {
	w := newWorld(t)
	bad := key
	bad.ID = "\xff"
	for name, call := range map[string]func() error{
		"Begin": func() error { _, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: bad}); return err },
		"a scheme": func() error {
			_, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key, FingerprintScheme: "\xff"})
			return err
		},
		"BatchBegin": func() error {
			_, err := w.keeper.BatchBegin(t.Context(), []client.BeginRequest{{Key: bad}})
			return err
		},
		"Get": func() error { _, err := w.keeper.Get(t.Context(), bad); return err },
	} {
		err := call()
		if !errors.Is(err, oncekeeper.ErrInvalidRequest) || status.Code(err) != codes.InvalidArgument || len(client.FieldViolations(err)) != 1 {
			t.Errorf("%s = %v, want ErrInvalidRequest", name, err)
		}
	}
}

func TestAnAnswerThatIsNotKnownIsInProgressAndNeverRuns(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{}
	answer, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
	if err != nil || answer.InProgress == nil || answer.Grant != nil {
		t.Errorf("Begin = %+v, %v, want in progress", answer, err)
	}
	_, err = client.Do(t.Context(), w.keeper, key, neverRun(t), client.WithWait(0))
	if !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Errorf("Do = %v, want ErrInProgress", err)
	}
}

func TestAGrantWithoutATokenIsNotRun(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{Result: &pb.BeginResponse_Grant{Grant: &pb.Grant{}}}
	if _, err := client.Do(t.Context(), w.keeper, key, neverRun(t)); err == nil {
		t.Error("Do gave no error")
	}
}

func neverRun(t *testing.T) func(context.Context, *client.Attempt) (int, error) {
	return func(context.Context, *client.Attempt) (int, error) {
		t.Error("it ran")
		return 0, nil
	}
}

func TestADeadlineThatTheServerSawPassIsNotTheCallers(t *testing.T) {
	w := newWorld(t)
	tries := 0
	w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
		if tries++; tries == 1 {
			return status.Error(codes.DeadlineExceeded, "a proxy's own")
		}
		return call(ctx)
	}
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		_, err = w.keeper.Begin(t.Context(), client.BeginRequest{Key: key})
	}()
	if pause, ok := w.clock.awaitUnless(t, done, 50*time.Millisecond, 100*time.Millisecond); ok {
		w.clock.Advance(pause)
	}
	recv(t, done, "Begin's return")
	if err != nil || tries != 2 {
		t.Errorf("Begin = %v after %d tries, want it tried again", err, tries)
	}
}

func TestABeginIsHeardOutForASecondBeyondItsCallersDeadline(t *testing.T) {
	w := newWorld(t, client.WithCallTimeout(24*time.Hour))
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	w.between = func(ctx context.Context, _ string, call func(context.Context) error) error {
		if got, ok := ctx.Deadline(); !ok || !got.Equal(deadline.Add(time.Second)) {
			t.Errorf("the deadline that the server sees is %v, want %v", got, deadline.Add(time.Second))
		}
		return call(ctx)
	}
	if _, err := w.keeper.Begin(ctx, client.BeginRequest{Key: key}); err != nil {
		t.Error(err)
	}
}
