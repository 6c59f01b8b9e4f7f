package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// takeOver gives k, which is running, to another.
func (w *world) takeOver(k oncekeeper.Key, token int64) {
	w.apply(lifecycle.Settle{Key: k, Token: token, As: oncekeeper.SettledRetryable, Status: &oncekeeper.Status{Code: 2}})
	w.apply(lifecycle.Begin{Key: k, CallID: "another", Grant: oncekeeper.Grant{Lease: fakeLease, Retention: time.Hour}})
}

func TestAnItemWhoseLeaseIsLostWhileItsNeighbourIsAskedForIsNotRun(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{1, 2} {
		if a, err := w.keeper.Begin(t.Context(), client.BeginRequest{Key: keyNumber(n)}); err != nil || a.Grant == nil {
			t.Fatalf("Begin = %+v, %v", a, err)
		}
	}
	w.clock.Advance(fakeLease)
	first := make(chan *client.Attempt, 1)
	reconcile := client.WithReconcile(func(ctx context.Context, q client.Question) (client.Finding, string, error) {
		a, _ := client.AttemptFromContext(ctx)
		if q.Key == keyNumber(1) {
			first <- a
			return client.DidNotHappen, "", nil
		}
		lost := recv(t, first, "the first item's attempt")
		w.takeOver(lost.Key(), lost.Token())
		if err := lost.SaveCheckpoint(ctx, nil); !errors.Is(err, oncekeeper.ErrFenced) {
			t.Errorf("SaveCheckpoint = %v, want ErrFenced", err)
		}
		return client.DidNotHappen, "", nil
	})
	results := client.DoBatch(t.Context(), w.keeper, items(1, 2), func(ctx context.Context, all granted) error {
		if len(all) != 1 || all[0].Item != 1 {
			t.Errorf("it runs for %d, the first of which is item %d; want the second alone", len(all), all[0].Item)
		}
		return done(ctx, all)
	}, reconcile)
	mustGive(t, results, client.ErrLeaseLost, "k-2 by 2")
}

// brokenAt is a store that panics when it is to close the receipt of one key.
type brokenAt struct {
	*fakereceipts.Store
	key oncekeeper.Key
}

func (b brokenAt) Close(ctx context.Context, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	if c.Key == b.key {
		panic("no such table")
	}
	return b.Store.Close(ctx, c, floor)
}

func TestAStoreThatPanicsAfterABatchLeavesNoLeaseBehind(t *testing.T) {
	s := newShop(t)
	func() {
		defer func() {
			if got := recover(); got != "no such table" {
				t.Errorf("the panic came up as %v", got)
			}
		}()
		client.DoEach(t.Context(), s.keeper, items(1, 2, 3), func(_ context.Context, _ *client.Attempt, item int) (string, error) {
			return "", oncekeeper.Final(errCrash)
		}, client.WithReceipts(brokenAt{s.db, keyNumber(2)}))
	}()
	s.clock.awaitNone(t, fakeLease/4, fakeLease/3)
	for n, want := range map[int]oncekeeper.Settlement{1: oncekeeper.SettledFinal, 2: oncekeeper.SettledUnknown, 3: oncekeeper.SettledFinal} {
		if rec := s.record(keyNumber(n)); rec.Last != want {
			t.Errorf("the record of %d is settled as %d, want %d", n, rec.Last, want)
		}
	}
}

func TestABatchWhoseLeasesAreOverBeforeItsCallerIsBackIsGivenBack(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	w.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "BatchBegin" {
			w.clock.Advance(fakeLease)
			leave()
		}
		return err
	}
	mustGive(t, client.DoBatch(ctx, w.keeper, items(1, 2), neverBatch(t)), client.ErrNotRun, client.ErrNotRun)
	w.mustBeNotRun(1, 2)
}

func TestAnItemThatIsRunAloneIsSettledBeforeItIsAnswered(t *testing.T) {
	s := newShop(t)
	onceFor(s.world, 1, statusOf(oncekeeper.ErrAskAlone, wire.Details{}))
	s.between = func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if method == "BatchBegin" { // what was told to ask alone was not granted
			s.apply(lifecycle.Settle{Key: keyNumber(1), Token: s.record(keyNumber(1)).Token, As: oncekeeper.SettledRetryable, Status: &oncekeeper.Status{Code: 2}})
		}
		return err
	}
	results := s.keeper.RunBatch(t.Context(), []client.Request{{Key: keyNumber(1), Receipts: s.db, Codec: codecOf("paid"), AnswerFirst: true}},
		func(_ context.Context, granted []*client.Granted) {
			_, err := fakereceipts.InTx(granted[0].Context(), s.db, func(context.Context) (string, error) { return "paid", nil })
			granted[0].End(client.EndedBy(err))
		})
	if r := results[0]; r.Err != nil || !r.Result.Ran || r.Result.Settling {
		t.Errorf("it gives %+v, want it run and settled", r)
	}
}
