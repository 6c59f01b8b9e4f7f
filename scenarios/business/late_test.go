package business

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// 11.
func TestALateRetryIsReplayedBeforeTheExpiryAndMeetsTheReceiptAfterIt(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		// Just before: asked again for as long as it is known, it is replayed.
		brief := []client.DoOption{client.WithLease(shortLease), client.WithRetention(2 * shortLease)}
		first := w.mustCharge("guarded", 10, brief...)
		if again := w.mustCharge("guarded", 10, brief...); again != first {
			w.Errorf("answered %q, then %q", first, again)
		}
		w.mustExpire("guarded")
		if late := w.mustCharge("guarded", 10, brief...); late != first {
			w.Errorf("after the expiry it is answered %q, want %q by the receipt", late, first)
		}
		w.mustHave("guarded", 1)

		// Naive: the record alone, for a shorter time than its callers come back.
		naive := func(ctx context.Context, _ *client.Attempt) (string, error) { return charge(ctx, w.db, "naive", 10) }
		for range 2 {
			if _, err := client.Do(w.Context(), w.keeper, key("naive"), naive, brief...); err != nil {
				w.Fatal(err)
			}
			w.mustExpire("naive")
		}
		w.mustHave("naive", 2)
	})
}

// mustExpire returns when request is not known any more.
func (w *world) mustExpire(request string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for {
		_, err := w.keeper.Get(ctx, key(request))
		if errors.Is(err, oncekeeper.ErrKeyNotFound) {
			return
		}
		if err != nil {
			w.Fatalf("waiting for %s to expire: %v", request, err)
		}
		time.Sleep(20 * time.Millisecond) // another process's clock cannot be moved
	}
}

// 16. The first attempt has taken all there is, and not committed, when the second
// one takes over and looks. It commits before the second one asks for the balance,
// which it finds to be too low.
func TestARefusalIsNeverKeptBesideAnEffect(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		commit := w.openTransaction("guarded", opening)
		answer, err := client.Do(w.Context(), w.keeper, key("guarded"), func(ctx context.Context, a *client.Attempt) (string, error) {
			if !a.Takeover() {
				return "", errors.New("this is no takeover")
			}
			commit()
			return w.chargeIfThereIsEnough(ctx, "guarded", opening)
		}, client.WithReceipts(w.receipts), client.WithLease(shortLease))
		if err != nil || answer != "charged 1000, 0 left" {
			w.Errorf("answered %q, %v; want what was charged", answer, err)
		}
		w.mustHave("guarded", 1)
		w.giveBack("guarded")

		// Naive: the same with nothing that looks. The refusal is kept, and the money gone.
		commit = w.openTransaction("naive", opening)
		refused := func(ctx context.Context, _ *client.Attempt) (string, error) {
			commit()
			answer, err := w.chargeIfThereIsEnough(ctx, "naive", opening)
			if err != nil {
				err = oncekeeper.Final(err)
			}
			return answer, err
		}
		if _, err := client.Do(w.Context(), w.keeper, key("naive"), refused, client.WithLease(shortLease)); !declined(err) {
			w.Errorf("the naive one is answered %v, want a refusal", err)
		}
		w.mustHave("naive", 1)
		rec, err := w.keeper.Get(w.Context(), key("naive"))
		if err != nil || rec.State != oncekeeper.StateFailed {
			w.Errorf("the naive record is %+v, %v; want the refusal kept", rec, err)
		}
	})
}

// openTransaction has an attempt at request that is never heard of again, whose
// transaction is open; commit has it committed.
func (w *world) openTransaction(request string, amount int64) (commit func()) {
	w.Helper()
	a, err := w.keeper.Begin(w.Context(), client.BeginRequest{Key: key(request), Lease: shortLease})
	if err != nil || a.Grant == nil {
		w.Fatalf("Begin = %+v, %v", a, err)
	}
	ctx := receipt.WithPermit(context.Background(), &receipt.Permit{
		Claim: receipt.Claim{Key: key(request), Token: a.Grant.Token}, Codec: plainText{},
	})
	open, release, done := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		_, err := sqlreceipt.InTx(ctx, w.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
			answer, err := charge(ctx, tx, request, amount)
			close(open)
			<-release
			return answer, err
		})
		done <- err
	}()
	<-open
	return func() {
		close(release)
		if err := <-done; err != nil {
			w.Errorf("the first attempt's transaction: %v", err)
		}
	}
}

// plainText keeps what Do keeps of a string.
type plainText struct{}

func (plainText) Encode(value any) (*oncekeeper.Response, error) {
	body, contentType, err := client.DefaultCodec[string]().Encode(value.(string))
	return &oncekeeper.Response{Body: body, ContentType: contentType}, err
}

func (plainText) Decode(kept *oncekeeper.Response, into any) (err error) {
	*into.(*string), err = client.DefaultCodec[string]().Decode(kept.Body, kept.ContentType)
	return err
}

// chargeIfThereIsEnough asks for the balance first, outside the transaction, as
// handlers do that want to refuse early.
func (w *world) chargeIfThereIsEnough(ctx context.Context, request string, amount int64) (string, error) {
	var left int64
	if err := w.db.QueryRowContext(ctx, `SELECT balance FROM accounts`).Scan(&left); err != nil {
		return "", err
	}
	if left < amount {
		return "", oncekeeper.Final(status.Error(codes.FailedPrecondition, "insufficient funds"))
	}
	return w.chargeOnce(ctx, request, amount)
}

// giveBack undoes what request was charged.
func (w *world) giveBack(request string) {
	w.Helper()
	if _, err := w.db.Exec(`DELETE FROM charges WHERE request = $1`, request); err != nil {
		w.Fatal(err)
	}
	if _, err := w.db.Exec(`UPDATE accounts SET balance = $1`, opening); err != nil {
		w.Fatal(err)
	}
}
