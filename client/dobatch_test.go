package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// items gives operations of the keys of those numbers.
func items(numbers ...int) []client.Item {
	var all []client.Item
	for _, n := range numbers {
		all = append(all, client.Item{Key: keyNumber(n)})
	}
	return all
}

type granted = []*client.BatchAttempt[string]

// done says of each that it is done, by its key and its attempt.
func done(_ context.Context, all granted) error {
	for _, a := range all {
		a.Done(fmt.Sprint(a.Key().ID, " by ", a.Number()))
	}
	return nil
}

func neverBatch(t *testing.T) func(context.Context, granted) error {
	return func(_ context.Context, all granted) error {
		t.Errorf("it ran for %d", len(all))
		return done(context.Background(), all)
	}
}

// mustGive fails the test where result i is not want: a value, or an error.
func mustGive(t *testing.T, results []client.ItemResult[string], want ...any) {
	t.Helper()
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d", len(results), len(want))
	}
	for i, r := range results {
		switch want := want[i].(type) {
		case string:
			if r.Err != nil || r.Value != want {
				t.Errorf("item %d got %q, %v; want %q", i, r.Value, r.Err, want)
			}
		case error:
			if !errors.Is(r.Err, want) || r.Value != "" {
				t.Errorf("item %d got %q, %v; want the error %v", i, r.Value, r.Err, want)
			}
		case codes.Code:
			if status.Code(r.Err) != want {
				t.Errorf("item %d got %q, %v; want %v", i, r.Value, r.Err, want)
			}
		}
	}
}

func TestABatchIsBegunRunAndSettledByOneCallEach(t *testing.T) {
	w := newWorld(t)
	runs := 0
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2, 3), func(ctx context.Context, all granted) error {
		runs++
		for i, a := range all {
			if a.Item != i || a.Key() != keyNumber(i+1) || a.Token() == 0 {
				t.Errorf("attempt %d is of item %d, %v, token %d", i, a.Item, a.Key(), a.Token())
			}
			if of, ok := client.AttemptFromContext(a.Context()); !ok || of != a.Attempt {
				t.Errorf("the context of attempt %d is of %v", i, of)
			}
		}
		if _, ok := client.AttemptFromContext(ctx); ok {
			t.Error("the context of all is one attempt's")
		}
		return done(ctx, all)
	})
	mustGive(t, results, "k-1 by 1", "k-2 by 1", "k-3 by 1")
	if runs != 1 || w.seen("BatchBegin") != 1 || w.seen("BatchSettle") != 1 || w.seen("Begin") != 0 {
		t.Errorf("it ran %d times by the calls %v", runs, w.calls)
	}
	mustGive(t, client.DoBatch(t.Context(), w.keeper, items(3, 2, 1), neverBatch(t)), "k-3 by 1", "k-2 by 1", "k-1 by 1")
	if got := client.DoBatch(t.Context(), w.keeper, nil, neverBatch(t)); len(got) != 0 {
		t.Errorf("a batch of nothing gives %v", got)
	}
}

func TestEachItemOfABatchHasItsOwnAnswer(t *testing.T) {
	w := newWorld(t)
	prepare := func(n int, as oncekeeper.Settlement, hold bool) {
		t.Helper()
		a, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(n), Hold: hold})
		if err != nil || a.Grant == nil {
			t.Fatalf("Begin = %+v, %v", a, err)
		}
		if as == oncekeeper.SettledNot {
			return
		}
		if _, err := w.keeper.Fail(t.Context(), keyNumber(n), a.Grant.Token, as, &oncekeeper.Status{Code: int32(codes.Unknown)}); err != nil {
			t.Fatal(err)
		}
	}
	prepare(1, oncekeeper.SettledNot, false)
	prepare(2, oncekeeper.SettledUnknown, true)
	prepare(3, oncekeeper.SettledFinal, false)
	prepare(5, oncekeeper.SettledUnknown, false)
	declined, broken := status.Error(codes.FailedPrecondition, "declined"), errors.New("broken")
	all := items(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	all[3].Options = []client.DoOption{client.WithFingerprint("raw", []byte{1}), client.WithCodec[int](nil)}
	all[9].Key.ID = "\xff"
	results := client.DoBatch(t.Context(), w.keeper, all, func(_ context.Context, granted granted) error {
		if len(granted) != 5 {
			t.Fatalf("%d were granted", len(granted))
		}
		for _, a := range granted {
			if a.Takeover() != (a.Item == 4) {
				t.Errorf("takeover of item %d is %v", a.Item, a.Takeover())
			}
		}
		granted[0].Done("five")
		granted[1].Failed(oncekeeper.Final(declined))
		granted[2].Failed(oncekeeper.NotApplied(broken))
		granted[3].NotRun(broken)
		return nil
	})
	mustGive(t, results, oncekeeper.ErrInProgress, oncekeeper.ErrUnresolved, codes.Unknown, codes.Unknown, "five",
		codes.FailedPrecondition, broken, client.ErrNotRun, codes.Unknown, oncekeeper.ErrInvalidRequest)
	if d, ok := client.RetryDelay(results[0].Err); !ok || d <= 0 {
		t.Errorf("what another runs says no delay: %v", results[0].Err)
	}
	var failed *client.FailedError
	if !errors.As(results[2].Err, &failed) || !errors.Is(results[7].Err, broken) {
		t.Errorf("the third is %v, the eighth %v", results[2].Err, results[7].Err)
	}
	if !strings.Contains(fmt.Sprint(results[3].Err), "no codec") || !strings.Contains(fmt.Sprint(results[8].Err), "did not say") {
		t.Errorf("the fourth is %v, the ninth %v", results[3].Err, results[8].Err)
	}
	for n, want := range map[int]oncekeeper.StoredState{5: oncekeeper.StoredCompleted, 6: oncekeeper.StoredFailed, 7: oncekeeper.StoredReleased, 8: oncekeeper.StoredReleased, 9: oncekeeper.StoredPending} {
		if rec := w.record(keyNumber(n)); rec.State != want || rec.NotRun != (n == 8) {
			t.Errorf("the record of %d is %+v, want it in state %d", n, rec, want)
		}
	}
	if rec := w.record(keyNumber(9)); rec.Last != oncekeeper.SettledUnknown {
		t.Errorf("of what nothing was said the record is %+v, want it unknown", rec)
	}
}

// The one commit fails that all of them are in.
func TestAnErrorOfABatchIsThatOfAllButThoseWithTheirOwn(t *testing.T) {
	w := newWorld(t)
	commit, own := errors.New("serialization failure"), errors.New("its own")
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2, 3, 4), func(ctx context.Context, all granted) error {
		_ = done(ctx, all)
		all[1].Failed(oncekeeper.Final(own))
		all[2].NotRun(nil)
		return oncekeeper.NotApplied(commit)
	})
	mustGive(t, results, commit, own, client.ErrNotRun, commit)
	for n, want := range map[int]oncekeeper.StoredState{1: oncekeeper.StoredReleased, 2: oncekeeper.StoredFailed, 3: oncekeeper.StoredReleased, 4: oncekeeper.StoredReleased} {
		if rec := w.record(keyNumber(n)); rec.State != want {
			t.Errorf("the record of %d is %+v, want it in state %d", n, rec, want)
		}
	}
}

func TestAKeyThatComesTwiceInABatchIsRunOnceOrInTurn(t *testing.T) {
	w := newWorld(t)
	all := items(1, 2, 1, 1)
	all[3].Options = []client.DoOption{client.WithFingerprint("", []byte("another request"))}
	mustGive(t, client.DoBatch(t.Context(), w.keeper, all, done), "k-1 by 1", "k-2 by 1", "k-1 by 1", oncekeeper.ErrFingerprintMismatch)

	busy := errors.New("busy")
	results := client.DoBatch(t.Context(), w.keeper, items(3, 3), func(ctx context.Context, all granted) error {
		if len(all) == 1 && all[0].Number() == 1 {
			return oncekeeper.NotApplied(busy)
		}
		return done(ctx, all)
	})
	mustGive(t, results, busy, "k-3 by 2")
}

func TestAnAnswerTooLargeForABatchIsAskedForAlone(t *testing.T) {
	c := &crowd{world: newWorld(t)}
	c.completed(t, keyNumber(2), 1<<19)
	c.batchAnswers = 1 << 10
	results := client.DoBatch(t.Context(), c.keeper, items(1, 2), done, client.WithCodec(text{}))
	mustGive(t, results, "k-1 by 1", string(make([]byte, 1<<19)))
	if c.seen("Begin") != 2 {
		t.Errorf("%d Begins, want the other caller's and one for the large answer", c.seen("Begin"))
	}
}

// text keeps a string as it is.
type text struct{}

func (text) Encode(s string) ([]byte, string, error)      { return []byte(s), "text/plain", nil }
func (text) Decode(body []byte, _ string) (string, error) { return string(body), nil }

func TestABatchInsideItsOwnFunctionIsRefused(t *testing.T) {
	w := newWorld(t)
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2), func(ctx context.Context, all granted) error {
		for _, within := range []context.Context{ctx, all[0].Context(), all[1].Context()} {
			inner := client.DoBatch(within, w.keeper, items(1, 2, 3), done)
			if !errors.Is(inner[0].Err, client.ErrNested) || !errors.Is(inner[1].Err, client.ErrNested) || inner[2].Err != nil {
				t.Errorf("inside it gives %+v", inner)
			}
			if _, err := client.Do(within, w.keeper, keyNumber(2), func(context.Context, *client.Attempt) (int, error) { return 0, nil }); !errors.Is(err, client.ErrNested) {
				t.Errorf("inside, Do gives %v", err)
			}
		}
		return done(ctx, all)
	})
	mustGive(t, results, "k-1 by 1", "k-2 by 1")
}

func TestABatchLargerThanTheServiceTakesIsDoneInParts(t *testing.T) {
	w := newWorld(t)
	var all []client.Item
	for n := range 600 {
		all = append(all, client.Item{Key: keyNumber(n)})
	}
	var parts []int
	results := client.DoBatch(t.Context(), w.keeper, all, func(ctx context.Context, granted granted) error {
		parts = append(parts, len(granted))
		return done(ctx, granted)
	})
	for i, r := range results {
		if r.Err != nil || r.Value != fmt.Sprintf("k-%d by 1", i) {
			t.Fatalf("item %d got %+v", i, r)
		}
	}
	if !slices.Equal(parts, []int{256, 256, 88}) || w.seen("BatchBegin") != 3 || w.seen("BatchSettle") != 3 {
		t.Errorf("parts of %v by %d BatchBegins and %d BatchSettles", parts, w.seen("BatchBegin"), w.seen("BatchSettle"))
	}
}
