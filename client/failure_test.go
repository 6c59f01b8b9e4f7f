package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestAnErrorIsSettledAsItWasMarked(t *testing.T) {
	boom := errors.New("boom")
	inner := status.Error(codes.NotFound, "no such card")
	nested := statusOf(oncekeeper.ErrInProgress, wire.Details{})
	for name, tc := range map[string]struct {
		err   error
		state oncekeeper.StoredState
		last  oncekeeper.Settlement
		code  codes.Code
	}{
		"plain":                {boom, oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.Unknown},
		"a status":             {inner, oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.NotFound},
		"cancelled":            {context.Canceled, oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.Canceled},
		"not applied":          {oncekeeper.NotApplied(boom), oncekeeper.StoredReleased, oncekeeper.SettledRetryable, codes.Unknown},
		"final":                {oncekeeper.Final(inner), oncekeeper.StoredFailed, oncekeeper.SettledFinal, codes.NotFound},
		"wrapped final":        {fmt.Errorf("x: %w", oncekeeper.Final(inner)), oncekeeper.StoredFailed, oncekeeper.SettledFinal, codes.NotFound},
		"nested sentinel":      {oncekeeper.Final(fmt.Errorf("x: %w", oncekeeper.ErrUnresolved)), oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.Unknown},
		"nested status":        {oncekeeper.Final(fmt.Errorf("x: %w", nested)), oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.Aborted},
		"nested among others":  {oncekeeper.Final(errors.Join(inner, nested)), oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.Unknown},
		"nested and no effect": {oncekeeper.NotApplied(nested), oncekeeper.StoredReleased, oncekeeper.SettledRetryable, codes.Aborted},
		"nested outage":        {oncekeeper.Final(client.ErrUnavailable), oncekeeper.StoredPending, oncekeeper.SettledUnknown, codes.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 7, tc.err })
			if !errors.Is(err, tc.err) {
				t.Errorf("the first caller got %v, want the function's own %v", err, tc.err)
			}
			rec := w.record(key)
			if rec.State != tc.state || rec.Last != tc.last || codes.Code(rec.Status.Code) != tc.code {
				t.Errorf("kept as state %d, settlement %d, code %v; want %d, %d, %v",
					rec.State, rec.Last, codes.Code(rec.Status.Code), tc.state, tc.last, tc.code)
			}
		})
	}
}

func TestAFinalErrorIsReplayedWithItsCodeMessageAndDetails(t *testing.T) {
	w := newWorld(t)
	st, err := status.New(codes.FailedPrecondition, "card expired").WithDetails(wrapperspb.String("04/21"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 0, oncekeeper.Final(st.Err()) })
	_, err = client.Do(t.Context(), w.keeper, key, neverRun(t))
	var failed *client.FailedError
	if !errors.As(err, &failed) || errors.Is(err, oncekeeper.ErrAttemptsExhausted) {
		t.Fatalf("the replay is %v, want a FailedError", err)
	}
	if got := status.Convert(failed); !proto.Equal(got.Proto(), st.Proto()) {
		t.Errorf("the replay's status is %v, want %v", got.Proto(), st.Proto())
	}
	if failed.Outcome.Attempt != 1 {
		t.Errorf("its outcome is %+v", failed.Outcome)
	}
}

func TestAKeyWhoseAttemptsAreUsedUpSaysSo(t *testing.T) {
	w := newWorld(t)
	fail := func(context.Context, *client.Attempt) (int, error) {
		return 0, oncekeeper.NotApplied(status.Error(codes.Unavailable, "card network"))
	}
	_, _ = client.Do(t.Context(), w.keeper, key, fail, client.WithMaxAttempts(1))
	_, err := client.Do(t.Context(), w.keeper, key, neverRun(t), client.WithMaxAttempts(1))
	if !errors.Is(err, oncekeeper.ErrAttemptsExhausted) || status.Code(err) != codes.Unavailable {
		t.Errorf("Do = %v, want ErrAttemptsExhausted with the last status", err)
	}
	if !client.OfService(err) {
		t.Error("it passes for another service's error")
	}
}

func TestAKeyThatWasGivenUpWithNoStatusSaysSoToo(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: &pb.Outcome{Origin: pb.Outcome_ORIGIN_EXHAUSTED}}}
	_, err := client.Do(t.Context(), w.keeper, key, neverRun(t))
	if !errors.Is(err, oncekeeper.ErrAttemptsExhausted) || status.Code(err) != codes.Unknown {
		t.Errorf("Do = %v, want ErrAttemptsExhausted", err)
	}
}

func TestAnOutcomeThatIsNotKnownIsNoZeroValue(t *testing.T) {
	w := newWorld(t)
	w.answer = &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{}}
	if _, err := client.Do(t.Context(), w.keeper, key, neverRun(t)); !errors.Is(err, client.ErrUndecodable) {
		t.Errorf("Do = %v, want ErrUndecodable", err)
	}
}

func TestAKeyThatIsHeldIsUnresolved(t *testing.T) {
	w := newWorld(t)
	_, _ = client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 0, errors.New("?") }, client.WithHold())
	_, err := client.Do(t.Context(), w.keeper, key, neverRun(t), client.WithHold())
	if !errors.Is(err, oncekeeper.ErrUnresolved) || status.Code(err) != codes.FailedPrecondition || client.Operation(err) != key.Operation {
		t.Errorf("Do = %v, want ErrUnresolved as the service says it", err)
	}
	result, err := w.keeper.Run(t.Context(), client.Request{Key: key}, nil)
	if err != nil || result.Unresolved == nil || result.Unresolved.Token != w.record(key).Token {
		t.Errorf("Run = %+v, %v, want the held attempt's token", result, err)
	}
}

func TestAnotherRequestUnderTheKeyIsAMismatch(t *testing.T) {
	w := newWorld(t)
	_, _ = client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (int, error) { return 1, nil }, client.WithFingerprint("raw", []byte{1}))
	_, err := client.Do(t.Context(), w.keeper, key, neverRun(t), client.WithFingerprint("raw", []byte{2}))
	if !errors.Is(err, oncekeeper.ErrFingerprintMismatch) || w.seen("Begin") != 2 {
		t.Errorf("Do = %v after %d Begins", err, w.seen("Begin"))
	}
}

func TestAValueWhoseSettlementCannotBeMadeIsGivenAndReported(t *testing.T) {
	var log bytes.Buffer
	var told []client.Unsettled
	w := newWorld(t, client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		client.WithUnsettled(func(u client.Unsettled) { told = append(told, u) }))
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		if method == "Complete" {
			return errCut
		}
		return call(ctx)
	}
	var token int64
	var got string
	done := background(func() (err error) {
		got, err = client.Do(t.Context(), w.keeper, key, func(_ context.Context, a *client.Attempt) (string, error) {
			token = a.Token()
			return "charged", nil
		})
		return err
	})
	w.clock.await(t, 50*time.Millisecond, 100*time.Millisecond)
	w.clock.Advance(client.DefaultSettleTimeout)
	if err := recv(t, done, "Do's return"); err != nil || got != "charged" {
		t.Errorf("Do = %q, %v: the effect happened", got, err)
	}
	if len(told) != 1 || told[0].Key != key || told[0].Token != token || told[0].As != oncekeeper.SettledComplete ||
		!errors.Is(told[0].Err, client.ErrUnavailable) || !errors.Is(told[0].Err, errCut) {
		t.Errorf("told %+v", told)
	}
	if line := log.String(); !strings.Contains(line, "level=WARN") || strings.Contains(line, key.ID) || strings.Contains(line, key.Tenant) {
		t.Errorf("logged %q, want a warning with no key in it", line)
	}
}

func TestASettlementThatIsRefusedIsTheCallersError(t *testing.T) {
	for name, meddle := range map[string]func(w *world){
		"FENCED": func(w *world) {
			w.apply(lifecycle.Delete{Key: key, Etag: w.record(key).Etag(), Force: true})
		},
		"ALREADY_SETTLED": func(w *world) {
			w.apply(lifecycle.Settle{Key: key, Token: w.record(key).Token, As: oncekeeper.SettledFinal, Status: &oncekeeper.Status{Code: 5}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			sentinel, _ := oncekeeper.SentinelFor(name)
			own := errors.New("own")
			for _, fnErr := range []error{nil, own} {
				w := newWorld(t)
				got, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (string, error) {
					meddle(w)
					return "mine", fnErr
				})
				if got != "" || !errors.Is(err, sentinel) || !errors.Is(err, fnErr) && fnErr != nil {
					t.Errorf("Do = %q, %v, want no value, %v and %v", got, err, sentinel, fnErr)
				}
			}
		})
	}
}

// No other outcome is known, and to drop the answer would have it run again.
func TestAValueWhoseRecordIsGoneIsGivenAndReported(t *testing.T) {
	own := errors.New("own")
	for _, fnErr := range []error{nil, own} {
		var told []client.Unsettled
		w := newWorld(t, client.WithLogger(slog.New(slog.DiscardHandler)), client.WithUnsettled(func(u client.Unsettled) { told = append(told, u) }))
		got, err := client.Do(t.Context(), w.keeper, key, func(context.Context, *client.Attempt) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.records, key)
			return "charged", fnErr
		})
		if want := map[bool]string{true: "charged"}[fnErr == nil]; got != want || !errors.Is(err, fnErr) || errors.Is(err, oncekeeper.ErrKeyNotFound) {
			t.Errorf("Do = %q, %v, want the function's own %q, %v", got, err, want, fnErr)
		}
		if len(told) != 1 || !errors.Is(told[0].Err, oncekeeper.ErrKeyNotFound) {
			t.Errorf("told %+v, want that the record is gone", told)
		}
	}
}
