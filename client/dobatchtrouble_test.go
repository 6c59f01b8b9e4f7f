package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// mustBeNotRun fails the test where the record of one of numbers is not given back as
// not run.
func (w *world) mustBeNotRun(numbers ...int) {
	w.t.Helper()
	for _, n := range numbers {
		if rec := w.record(keyNumber(n)); rec == nil || rec.State != oncekeeper.StoredReleased || !rec.NotRun {
			w.t.Errorf("the record of %d is %+v, want it given back as not run", n, rec)
		}
	}
}

func TestTheLeasesOfABatchAreRenewedWhileItRuns(t *testing.T) {
	w := newWorld(t)
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2), func(ctx context.Context, all granted) error {
		for third := range 4 {
			w.clock.awaitBoth(t, fakeLease/4, fakeLease/3)
			w.clock.Advance(fakeLease / 3)
			awaitSeen(t, w.fake, "Renew", 2*(third+1))
		}
		if ctx.Err() != nil || all[0].Context().Err() != nil {
			t.Error("a lease that is renewed was lost")
		}
		return done(ctx, all)
	})
	mustGive(t, results, "k-1 by 1", "k-2 by 1")
}

// awaitBoth waits until two wait for between least and most.
func (c *testClock) awaitBoth(t *testing.T, least, most time.Duration) {
	t.Helper()
	for {
		c.mu.Lock()
		n, changed := 0, c.changed
		for timer := range c.pending {
			if timer.d >= least && timer.d <= most {
				n++
			}
		}
		c.mu.Unlock()
		if n == 2 {
			return
		}
		select {
		case <-changed:
		case <-time.After(hang):
			t.Fatalf("%d came to wait for %v to %v, want 2", n, least, most)
		}
	}
}

func awaitSeen(t *testing.T, f *fake, method string, n int) {
	t.Helper()
	await(t, method+"s seen", func() int { return min(n, f.seen(method)) }, n)
}

func TestALeaseThatIsLostEndsItsOwnItemOfABatchAlone(t *testing.T) {
	w := newWorld(t)
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2), func(ctx context.Context, all granted) error {
		w.apply(lifecycle.Settle{Key: keyNumber(2), Token: all[1].Token(), As: oncekeeper.SettledRetryable, Status: &oncekeeper.Status{Code: 2}})
		w.apply(lifecycle.Begin{Key: keyNumber(2), CallID: "another", Grant: oncekeeper.Grant{Lease: fakeLease, Retention: time.Hour}})
		w.clock.awaitBoth(t, fakeLease/4, fakeLease/3)
		w.clock.Advance(fakeLease / 3)
		recv(t, all[1].Context().Done(), "the end of the second's context")
		if cause := context.Cause(all[1].Context()); !errors.Is(cause, client.ErrLeaseLost) || !errors.Is(cause, oncekeeper.ErrFenced) {
			t.Errorf("its cause is %v", cause)
		}
		if all[0].Context().Err() != nil || ctx.Err() != nil {
			t.Error("its neighbour's context has ended too, or that of all")
		}
		return done(ctx, all)
	})
	mustGive(t, results, "k-1 by 1", oncekeeper.ErrFenced)
}

func TestTheContextOfABatchEndsWhenAllOfItHas(t *testing.T) {
	w := newWorld(t)
	all := items(1, 2)
	all[0].Options = []client.DoOption{client.WithMaxRunTime(time.Second)}
	results := client.DoBatch(t.Context(), w.keeper, all, func(ctx context.Context, all granted) error {
		w.clock.Advance(time.Second)
		recv(t, all[0].Context().Done(), "the end of the first's context")
		if ctx.Err() != nil {
			t.Error("the context of all ended with the first's")
		}
		w.clock.Advance(time.Second)
		recv(t, ctx.Done(), "the end of the context of all")
		if !errors.Is(context.Cause(ctx), client.ErrRunTime) {
			t.Errorf("its cause is %v", context.Cause(ctx))
		}
		return done(ctx, all)
	}, client.WithMaxRunTime(2*time.Second))
	mustGive(t, results, "k-1 by 1", "k-2 by 1")
}

func TestABatchWhoseCallerLeavesBeforeItRunsIsGivenBack(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		ctx, leave := context.WithCancel(t.Context())
		left := 0
		w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
			err := call(ctx)
			if left++; left == 1 {
				leave()
				if lost {
					return errLeft
				}
			}
			return err
		}
		results := client.DoBatch(ctx, w.keeper, items(1, 2), neverBatch(t))
		mustGive(t, results, context.Canceled, context.Canceled)
		if !lost {
			mustGive(t, results, client.ErrNotRun, client.ErrNotRun)
		}
		w.awaitState(t, keyNumber(1), oncekeeper.StoredReleased)
		w.awaitState(t, keyNumber(2), oncekeeper.StoredReleased)
		w.mustBeNotRun(1, 2)
	}
}

func eachOf(t *testing.T, w *world, ctx context.Context, n int, during func(item int) error) []client.ItemResult[string] {
	t.Helper()
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return client.DoEach(ctx, w.keeper, items(numbers...), func(ctx context.Context, a *client.Attempt, item int) (string, error) {
		if of, _ := client.AttemptFromContext(ctx); of != a || a.Key() != keyNumber(item+1) {
			t.Errorf("item %d runs as %v", item, a.Key())
		}
		return fmt.Sprint("did ", item), during(item)
	})
}

func TestACallerThatLeavesInTheMiddleOfABatchGivesBackWhatWasNotRun(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	results := eachOf(t, w, ctx, 4, func(item int) error {
		if item == 1 {
			leave()
		}
		return nil
	})
	mustGive(t, results, "did 0", "did 1", client.ErrNotRun, client.ErrNotRun)
	if !errors.Is(results[3].Err, context.Canceled) {
		t.Errorf("it says %v, and not why it was not run", results[3].Err)
	}
	w.mustBeNotRun(3, 4)
	mustGive(t, eachOf(t, w, t.Context(), 4, func(int) error { return nil }), "did 0", "did 1", "did 2", "did 3")
}

func TestAPanicInABatchIsItsOwnItemsAloneAndGoesOn(t *testing.T) {
	w := newWorld(t)
	func() {
		defer func() {
			if got := recover(); got != "oops" {
				t.Errorf("the panic came up as %v", got)
			}
		}()
		eachOf(t, w, t.Context(), 3, func(item int) error {
			if item == 1 {
				panic("oops")
			}
			return nil
		})
	}()
	if one, two := w.record(keyNumber(1)), w.record(keyNumber(2)); one.State != oncekeeper.StoredCompleted || two.Last != oncekeeper.SettledUnknown {
		t.Errorf("the first is %+v, the second %+v; want it completed, and unknown", one, two)
	}
	w.mustBeNotRun(3)

	func() {
		defer func() { _ = recover() }()
		client.DoBatch(t.Context(), w.keeper, items(4, 5), func(ctx context.Context, all granted) error {
			_ = done(ctx, all)
			panic("before the commit")
		})
	}()
	for _, n := range []int{4, 5} {
		if rec := w.record(keyNumber(n)); rec.Last != oncekeeper.SettledUnknown {
			t.Errorf("the record of %d is %+v, want it unknown: nobody knows of the commit", n, rec)
		}
	}
}

// once has f's error given the first time that the key of number is asked for.
func onceFor(w *world, number int, err error) {
	asked := false
	w.refuseItem = func(k oncekeeper.Key) error {
		if k != keyNumber(number) || asked {
			return nil
		}
		asked = true
		return err
	}
}

func TestAnItemThatGotNoVerdictIsAskedForAgainAndNoOther(t *testing.T) {
	w := newWorld(t)
	onceFor(w, 2, statusOf(oncekeeper.ErrStoreUnavailable, wire.Details{}))
	got := make(chan []client.ItemResult[string], 1)
	go func() { got <- client.DoBatch(t.Context(), w.keeper, items(1, 2, 3), done) }()
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	mustGive(t, recv(t, got, "the batch's return"), "k-1 by 1", "k-2 by 1", "k-3 by 1")
	if len(w.begins) != 4 || w.begins[3].GetCallId() != w.begins[1].GetCallId() {
		t.Errorf("begun as %v, want the second once more, under its call id", w.begins)
	}
}

func TestASettlementThatGotNoVerdictIsSaidAgainAndNoOther(t *testing.T) {
	w := newWorld(t)
	got := make(chan []client.ItemResult[string], 1)
	go func() {
		got <- client.DoBatch(t.Context(), w.keeper, items(1, 2, 3), func(ctx context.Context, all granted) error {
			onceFor(w, 2, statusOf(oncekeeper.ErrOverloaded, wire.Details{}))
			return done(ctx, all)
		})
	}()
	w.clock.pass(t, 50*time.Millisecond, 100*time.Millisecond)
	mustGive(t, recv(t, got, "the batch's return"), "k-1 by 1", "k-2 by 1", "k-3 by 1")
	if w.seen("BatchSettle") != 2 || w.seen("Complete") != 4 {
		t.Errorf("settled by %v", w.calls)
	}
}

func TestLargeAnswersOfABatchAreSettledInPartsAndTooLargeOnesLeftOut(t *testing.T) {
	w := newWorld(t)
	w.maxBytes = 700 << 10
	w.hideLimit = true
	sizes := []int{600 << 10, 600 << 10, 900 << 10, 4 << 20}
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2, 3, 4), func(_ context.Context, all granted) error {
		for i, a := range all {
			a.Done(strings.Repeat("x", sizes[i]))
		}
		return nil
	}, client.WithCodec(text{}))
	for i, r := range results {
		rec := w.record(keyNumber(i + 1))
		if r.Err != nil || len(r.Value) != sizes[i] || rec.State != oncekeeper.StoredCompleted || rec.Response.Omitted != (i >= 2) {
			t.Errorf("item %d got %d bytes, %v; kept as omitted: %v", i, len(r.Value), r.Err, rec.Response.Omitted)
		}
	}
	if w.seen("BatchSettle") != 3 {
		t.Errorf("%d BatchSettles, want the largest alone and the others apart", w.seen("BatchSettle"))
	}
}

func TestABatchInAnOutageRunsEachAloneWhereItMay(t *testing.T) {
	w := newWorld(t, client.WithRetryBudget(0, 0))
	w.between = func(context.Context, string, func(context.Context) error) error { return errCut }
	all := items(1, 2, 3)
	all[1].Options = []client.DoOption{client.WithOutage(client.OutageClosed)}
	runs := 0
	results := client.DoBatch(t.Context(), w.keeper, all, func(ctx context.Context, granted granted) error {
		runs++
		if granted[0].Item == 2 {
			granted[0].NotRun(nil)
			return nil
		}
		return done(ctx, granted)
	}, client.WithOutage(client.OutageOpen))
	mustGive(t, results, "k-1 by 0", client.ErrUnavailable, client.ErrNotRun)
	if st := w.keeper.Stats(); runs != 2 || st.OutageOpen != 2 {
		t.Errorf("it ran %d times, counted %+v", runs, st)
	}
}

func TestTheReceiptsOfABatchAreTheOutcomesOfItsItems(t *testing.T) {
	s := newShop(t)
	pay := func(_ context.Context, all granted) error {
		for _, a := range all {
			if a.Item == 1 {
				a.Failed(oncekeeper.Final(errCrash)) // refused: closed before it is kept
				continue
			}
			value, err := fakereceipts.InTx(a.Context(), s.db, func(context.Context) (string, error) { return "paid " + a.Key().ID, nil })
			if err != nil {
				t.Error(err)
			}
			a.Done("not " + value)
		}
		return nil
	}
	token, err := s.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(3)})
	if err != nil {
		t.Fatal(err)
	}
	left := applied(token.Grant.Token) // it committed, and died before it said so
	left.Key, left.FingerprintScheme, left.Fingerprint = keyNumber(3), "", nil
	s.db.Put(left)
	s.clock.Advance(fakeLease)
	results := client.DoBatch(t.Context(), s.keeper, items(1, 2, 3), pay, client.WithReceipts(s.db))
	mustGive(t, results, "paid k-1", errCrash, "paid")
	for n, want := range map[int]int{1: 1, 2: 0, 3: 1} {
		if got := s.db.Effects(keyNumber(n)); got != want {
			t.Errorf("the operation of %d happened %d times, want %d", n, got, want)
		}
	}
	if s.db.Row(keyNumber(2)).Floor == 0 || s.db.Steps("close") != 1 || s.db.Steps("look") != 1 {
		t.Errorf("closed %d times and looked %d times, want once each", s.db.Steps("close"), s.db.Steps("look"))
	}
	mustGive(t, client.DoBatch(t.Context(), s.keeper, items(1, 3), neverBatch(t), client.WithReceipts(s.db)), "paid k-1", "paid")
}
