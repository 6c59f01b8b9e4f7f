package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

var errBroken = errors.New("broken")

// messages gives as many, of the numbers.
func messages(numbers ...int) []inbox.Message {
	var all []inbox.Message
	for _, n := range numbers {
		all = append(all, inbox.Message{ID: fmt.Sprint("m-", n), Fingerprint: fingerprint.Raw([]byte(fmt.Sprint("order ", n)))})
	}
	return all
}

func TestASliceOfMessagesIsHandledOnceByOneCall(t *testing.T) {
	s := subscribe(t, client.Request{})
	must(t, "by itself", s.Handle(t.Context(), messages(2)[0], s.giving(nil)), inbox.Handled, inbox.NoReason)
	var handled [][]int
	handle := func(_ context.Context, all []*inbox.Delivery) error {
		var items []int
		for _, d := range all {
			items = append(items, d.Item)
			if of, _ := client.AttemptFromContext(d.Context()); of != d.Attempt || d.Number() != 1 {
				t.Errorf("delivery %d is attempt %d, in the context of %v", d.Item, d.Number(), of)
			}
		}
		handled = append(handled, items)
		return nil
	}
	first := s.HandleAll(t.Context(), messages(1, 2, 3, 1), handle)
	for i, want := range []inbox.Verdict{inbox.Handled, inbox.Duplicate, inbox.Handled, inbox.Duplicate} {
		must(t, fmt.Sprint("message ", i), first[i], want, inbox.NoReason)
	}
	for i, r := range s.HandleAll(t.Context(), messages(1, 2, 3), handle) {
		must(t, fmt.Sprint("again, message ", i), r, inbox.Duplicate, inbox.NoReason)
	}
	if fmt.Sprint(handled) != "[[0 2]]" {
		t.Errorf("handled %v, want the first and the third in one call", handled)
	}
	if st := s.Stats(); st.Handled != 3 || st.Duplicate != 5 {
		t.Errorf("counted %+v", st)
	}
}

func TestAMessageThatFailsDoesNotFailItsNeighbours(t *testing.T) {
	s := subscribe(t, client.Request{MaxAttempts: 2})
	other := messages(5)[0]
	other.Fingerprint = fingerprint.Raw([]byte("another"))
	must(t, "another order", s.Handle(t.Context(), other, s.giving(nil)), inbox.Handled, inbox.NoReason)
	results := s.HandleAll(t.Context(), append(messages(1, 2, 3, 4, 5), inbox.Message{ID: " "}), func(_ context.Context, all []*inbox.Delivery) error {
		all[1].Failed(oncekeeper.NotApplied(errBroken))
		all[2].Failed(oncekeeper.Final(errBroken))
		all[3].NotRun(errBroken)
		return nil
	})
	must(t, "the first", results[0], inbox.Handled, inbox.NoReason)
	must(t, "the second", results[1], inbox.Later, inbox.Failed)
	must(t, "the third", results[2], inbox.DeadLetter, inbox.Final)
	must(t, "the fourth", results[3], inbox.Later, inbox.Unavailable)
	must(t, "another's id", results[4], inbox.DeadLetter, inbox.Refused)
	must(t, "what is no id", results[5], inbox.DeadLetter, inbox.Refused)
	for i := 1; i < 4; i++ {
		if !errors.Is(results[i].Err, errBroken) {
			t.Errorf("of message %d the error is %v", i, results[i].Err)
		}
	}
	// The one commit fails for all that are in it.
	results = s.HandleAll(t.Context(), messages(2, 4, 6), func(_ context.Context, all []*inbox.Delivery) error {
		if all[0].Number() != 2 || all[1].Number() != 1 {
			t.Errorf("attempts %d and %d, want the second, and the first of what was not run", all[0].Number(), all[1].Number())
		}
		return oncekeeper.NotApplied(errBroken)
	})
	for i, r := range results {
		must(t, fmt.Sprint("of a failed commit, message ", i), r, inbox.Later, inbox.Failed)
	}
	results = s.HandleAll(t.Context(), messages(2, 4), func(context.Context, []*inbox.Delivery) error { return nil })
	must(t, "given up", results[0], inbox.DeadLetter, inbox.Exhausted)
	must(t, "its neighbour", results[1], inbox.Handled, inbox.NoReason)
}

func TestASliceOfMessagesWaitsForNoOtherConsumer(t *testing.T) {
	s := subscribe(t, client.Request{})
	s.HandleAll(t.Context(), messages(1, 2), func(ctx context.Context, _ []*inbox.Delivery) error {
		results := s.HandleAll(context.WithoutCancel(t.Context()), messages(2, 3), func(context.Context, []*inbox.Delivery) error { return nil })
		must(t, "what another has", results[0], inbox.Later, inbox.InProgress)
		must(t, "its neighbour", results[1], inbox.Handled, inbox.NoReason)
		return nil
	})
}

func TestMessagesNotComeToAreGivenBack(t *testing.T) {
	s := subscribe(t, client.Request{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	results := s.HandleEach(ctx, messages(1, 2, 3), func(_ context.Context, a *client.Attempt, item int) error {
		if want := fmt.Sprint("m-", item+1); a.Key().ID != want {
			t.Errorf("item %d is %q, want %q", item, a.Key().ID, want)
		}
		if item == 1 {
			stop()
			return errBroken
		}
		return nil
	})
	must(t, "the first", results[0], inbox.Handled, inbox.NoReason)
	must(t, "the second", results[1], inbox.Later, inbox.Failed)
	must(t, "the third", results[2], inbox.Later, inbox.Unavailable)
	if rec := s.record("m-3"); rec.Number != 0 || !errors.Is(results[2].Err, context.Canceled) {
		t.Errorf("of the third the record is %+v, the error %v; want no attempt counted", rec, results[2].Err)
	}
}

func TestEachMessageOfASliceHasItsOwnReceipt(t *testing.T) {
	s := openShop(t, client.Request{})
	handle := func(_ context.Context, all []*inbox.Delivery) error {
		for _, d := range all {
			s.runs++
			failure := error(nil)
			if d.Item == 1 {
				failure = errBroken
			}
			_, err := sqlreceipt.InTx(d.Context(), s.receipts, func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?)", d.Key().ID)
				return d.Item, errors.Join(err, failure)
			})
			d.Failed(err)
		}
		return nil
	}
	s.keeper.LoseSettlements(1) // the consumer dies before it tells
	s.HandleAll(t.Context(), messages(1, 2, 3), handle)
	s.keeper.EndLeases()
	for i, want := range []inbox.Verdict{inbox.Duplicate, inbox.Later, inbox.Duplicate} {
		r := s.HandleAll(t.Context(), messages(1, 2, 3), handle)[i]
		if r.Verdict != want {
			t.Errorf("message %d is %v: %v, want %v", i, r.Verdict, r.Err, want)
		}
	}
	var rows, ids int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT id) FROM invoices").Scan(&rows, &ids); err != nil || rows != 2 || ids != 2 {
		t.Errorf("%d invoices of %d messages, %v; want one of the first and one of the third", rows, ids, err)
	}
	if s.runs != 3+3 {
		t.Errorf("%d were run, want all three once and the second each time after", s.runs)
	}
}

func TestAMessageThatWasNotHandledComesLaterWhateverTheReason(t *testing.T) {
	for _, why := range []error{nil, errBroken, oncekeeper.ErrFingerprintMismatch, oncekeeper.ErrFenced, client.ErrNested} {
		s := subscribe(t, client.Request{})
		r := s.HandleAll(t.Context(), messages(1), func(_ context.Context, all []*inbox.Delivery) error {
			all[0].NotRun(why)
			return nil
		})
		must(t, fmt.Sprint("for ", why), r[0], inbox.Later, inbox.Unavailable)
	}
}
