package business

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// The lease of a scenario in which nobody dies, and of one in which somebody does.
const (
	longLease  = time.Minute
	shortLease = 500 * time.Millisecond
)

// charge asks for a charge, guarded.
func (w *world) charge(ctx context.Context, request string, amount int64, opts ...client.DoOption) (string, error) {
	opts = append([]client.DoOption{client.WithReceipts(w.receipts), client.WithLease(longLease)}, opts...)
	return client.Do(ctx, w.keeper, key(request), func(ctx context.Context, _ *client.Attempt) (string, error) {
		return w.chargeOnce(ctx, request, amount)
	}, opts...)
}

// mustCharge is charge of something that cannot be refused.
func (w *world) mustCharge(request string, amount int64, opts ...client.DoOption) string {
	w.Helper()
	answer, err := w.charge(w.Context(), request, amount, opts...)
	if err != nil {
		w.Fatalf("charging %s: %v", request, err)
	}
	return answer
}

// naively does what is asked for, whoever asks.
func (w *world) naively(request string, amount int64) string {
	w.Helper()
	answer, err := charge(w.Context(), w.db, request, amount)
	if err != nil {
		w.Fatalf("charging %s: %v", request, err)
	}
	return answer
}

// mustHave fails where request was not charged so often.
func (w *world) mustHave(request string, want int) {
	w.Helper()
	if n := w.effects(w.T, request); n != want {
		w.Errorf("%s was charged %d times, want %d", request, n, want)
	}
}

// 1.
func TestTheSameMessageTwiceIsOneCharge(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		if first, again := w.mustCharge("guarded", 10), w.mustCharge("guarded", 10); first != again {
			w.Errorf("answered %q, then %q", first, again)
		}
		w.mustHave("guarded", 1)

		w.naively("naive", 10)
		w.naively("naive", 10)
		w.mustHave("naive", 2)
	})
}

// 2. The hundred repetitions are shared by the four worlds; each set of fifty is new
// to the first of five, whose workers race for it.
func TestFourWorkersOnTheSameFiftyMessages(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		const workers, messages, repetitions, fresh = 4, 50, 25, 5
		each := func(name string, handle func(request string) error) {
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for m := range messages {
						if err := handle(fmt.Sprintf("%s-%d", name, m)); err != nil {
							w.Errorf("message %d: %v", m, err)
						}
					}
				})
			}
			all.Wait()
		}
		for repetition := range repetitions {
			each(fmt.Sprintf("guarded-%d", repetition/fresh), func(request string) error {
				_, err := w.charge(w.Context(), request, 0)
				return err
			})
		}
		w.mustBeEach("guarded-", repetitions/fresh*messages, 1)

		each("naive", func(request string) error {
			_, err := charge(w.Context(), w.db, request, 0)
			return err
		})
		w.mustBeEach("naive-", messages, workers)
	})
}

// mustBeEach fails unless so many requests begin with prefix, each charged so often.
func (w *world) mustBeEach(prefix string, requests, times int) {
	w.Helper()
	var found, least, most int
	err := w.db.QueryRow(`SELECT count(*), coalesce(min(n), 0), coalesce(max(n), 0) FROM
		(SELECT count(*) AS n FROM charges WHERE request LIKE $1 GROUP BY request) AS each`, prefix+"%").Scan(&found, &least, &most)
	if err != nil {
		w.Fatal(err)
	}
	if found != requests || least != times || most != times {
		w.Errorf("%s*: %d requests were charged %d to %d times, want %d requests %d times each", prefix, found, least, most, requests, times)
	}
}

// 3.
func TestAFailureAndThenARedeliveryIsAppliedOnce(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		errBroken := errors.New("the disk is full")
		_, err := client.Do(w.Context(), w.keeper, key("guarded"), func(ctx context.Context, _ *client.Attempt) (string, error) {
			return sqlreceipt.InTx(ctx, w.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
				if _, err := charge(ctx, tx, "guarded", 10); err != nil {
					return "", err
				}
				return "", errBroken
			})
		}, client.WithReceipts(w.receipts), client.WithLease(longLease))
		if !errors.Is(err, errBroken) {
			w.Fatalf("the first delivery gives %v", err)
		}
		w.mustHave("guarded", 0)
		w.mustCharge("guarded", 10) // at once: nobody waits for a lease that runs for a minute
		w.mustHave("guarded", 1)

		// Naive: what was seen is never done again, also where it failed.
		seen := map[string]bool{}
		consume := func(handle func() error) error {
			if seen["naive"] {
				return nil
			}
			seen["naive"] = true
			return handle()
		}
		if err := consume(func() error { return errBroken }); err == nil {
			w.Fatal("the first delivery works")
		}
		if err := consume(func() error { _, err := charge(w.Context(), w.db, "naive", 10); return err }); err != nil {
			w.Fatal(err)
		}
		w.mustHave("naive", 0)
	})
}

// 4.
func TestWhatWasCommittedIsNotDoneAgainWhenItsAnswerIsLost(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		ctx, hangUp := context.WithCancel(w.Context())
		first := make(chan string, 1)
		_, _ = client.Do(ctx, w.keeper, key("guarded"), func(ctx context.Context, _ *client.Attempt) (string, error) {
			answer, err := w.chargeOnce(ctx, "guarded", 10)
			first <- answer
			hangUp() // nobody is there any more to be told
			return answer, err
		}, client.WithReceipts(w.receipts), client.WithLease(longLease))
		if again, first := w.mustCharge("guarded", 10), <-first; again != first {
			w.Errorf("the retry is answered %q, want what was done, %q", again, first)
		}
		w.mustHave("guarded", 1)

		w.naively("naive", 10) // and the answer is lost
		w.naively("naive", 10)
		w.mustHave("naive", 2)
	})
}

// 5.
func TestOfTwoEqualRequestsThatRaceOneRuns(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		both := func(ask func() error) {
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					if err := ask(); err != nil {
						w.Error(err)
					}
				})
			}
			all.Wait()
		}
		both(func() error { _, err := w.charge(w.Context(), "guarded", 10); return err })
		w.mustHave("guarded", 1)

		// Naive: look, and then do. Both have looked before one has done it.
		var looked sync.WaitGroup
		looked.Add(2)
		both(func() error {
			var n int
			err := w.db.QueryRow(`SELECT count(*) FROM charges WHERE request = 'naive'`).Scan(&n)
			looked.Done()
			looked.Wait()
			if err != nil || n > 0 {
				return err
			}
			_, err = charge(w.Context(), w.db, "naive", 10)
			return err
		})
		w.mustHave("naive", 2)
	})
}

// 6.
func TestAnotherRequestUnderAnOldKeyIsRefused(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		of := func(amount int64) client.DoOption {
			return client.WithFingerprint("amount", fmt.Append(nil, amount))
		}
		w.mustCharge("guarded", 10, of(10))
		if _, err := w.charge(w.Context(), "guarded", 500, of(500)); !errors.Is(err, oncekeeper.ErrFingerprintMismatch) {
			w.Errorf("another amount under the same key gives %v, want ErrFingerprintMismatch", err)
		}
		w.mustHave("guarded", 1)
		w.lose(w.T) // the receipt knows it too
		if _, err := w.charge(w.Context(), "guarded", 500, of(500)); !errors.Is(err, oncekeeper.ErrFingerprintMismatch) {
			w.Errorf("and on a fresh service %v, want ErrFingerprintMismatch", err)
		}
		w.mustHave("guarded", 1)

		// Naive: the key alone says what is the same.
		answers := map[string]string{}
		ask := func(amount int64) string {
			if _, there := answers["naive"]; !there {
				answers["naive"] = w.naively("naive", amount)
			}
			return answers["naive"]
		}
		if ask(10) != ask(500) {
			w.Error("the naive one tells the requests apart, and shows nothing")
		}
	})
}

// 14.
func TestAReplayGivesTheFirstAnswerAndNotThePresentState(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		first := w.mustCharge("guarded", 10)
		w.mustCharge("meanwhile", 500)
		if again := w.mustCharge("guarded", 10); again != first {
			w.Errorf("answered %q, then %q", first, again)
		}

		// Naive: the row says that it was done, and the answer is made anew.
		present := func() (answer string) {
			var left int64
			if err := w.db.QueryRow(`SELECT balance FROM accounts`).Scan(&left); err != nil {
				w.Fatal(err)
			}
			return fmt.Sprintf("charged 10, %d left", left)
		}
		first = w.naively("naive", 10)
		w.naively("naive-meanwhile", 100)
		if present() == first {
			w.Error("the naive answer is still the first one, and shows nothing")
		}
	})
}

// 15.
func TestACompensationRunTwiceGivesTheMoneyBackOnce(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		w.mustCharge("guarded", 100)
		refund := oncekeeper.Key{Tenant: "acme", Operation: "refund", ID: "guarded"}
		for range 2 {
			_, err := client.Do(w.Context(), w.keeper, refund, func(ctx context.Context, _ *client.Attempt) (string, error) {
				return sqlreceipt.InTx(ctx, w.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
					return charge(ctx, tx, "refund of guarded", -100)
				})
			}, client.WithReceipts(w.receipts), client.WithLease(longLease))
			if err != nil {
				w.Fatal(err)
			}
		}
		w.mustHave("refund of guarded", 1)

		w.naively("naive", 100)
		w.naively("refund of naive", -100)
		w.naively("refund of naive", -100)
		w.mustHave("refund of naive", 2)
	})
}

// declined says whether err is the refusal of a charge.
func declined(err error) bool { return status.Code(err) == codes.FailedPrecondition }
