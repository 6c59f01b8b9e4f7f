package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// shop is a subscriber whose handler's effect is a row of its own database.
type shop struct {
	*subscriber
	db       *sql.DB
	receipts *sqlreceipt.Store
}

func openShop(t *testing.T, req client.Request) *shop {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, statement := range []string{sqlreceipt.SQLite.Schema(), "CREATE TABLE invoices (id text)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	receipts, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	req.Receipts = receipts
	return &shop{subscriber: subscribe(t, req), db: db, receipts: receipts}
}

// invoice is a handler that writes an invoice, and then gives err.
func (s *shop) invoice(err error) inbox.Handler {
	return func(ctx context.Context, _ *client.Attempt) error {
		s.runs++
		_, failed := sqlreceipt.InTx(ctx, s.receipts, func(ctx context.Context, tx *sql.Tx) (map[string]int, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES ('i-1')")
			return map[string]int{"number": 1}, err
		})
		return errors.Join(failed, err)
	}
}

func (s *shop) invoices(t *testing.T) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM invoices").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWhatAConsumerCommittedBeforeItDiedIsADuplicate(t *testing.T) {
	for name, req := range map[string]client.Request{"taken over": {Lease: time.Minute}, "held": {Lease: time.Minute, Hold: true}} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, req)
			key := oncekeeper.Key{Tenant: "acme", Operation: "inbox/invoices", ID: m.ID}
			died, err := s.keeper.Client().Begin(t.Context(), client.BeginRequest{
				Key: key, Lease: req.Lease, Hold: req.Hold, FingerprintScheme: m.Fingerprint.Scheme, Fingerprint: m.Fingerprint.Digest,
			})
			if err != nil || died.Grant == nil {
				t.Fatalf("Begin: %+v, %v", died, err)
			}
			ctx := receipt.WithPermit(t.Context(), &receipt.Permit{Codec: kept{}, Claim: receipt.Claim{
				Key: key, Token: died.Grant.Token, FingerprintScheme: m.Fingerprint.Scheme, Fingerprint: m.Fingerprint.Digest,
			}})
			if err := s.invoice(nil)(ctx, nil); err != nil {
				t.Fatal(err)
			}
			s.keeper.Clock.Advance(time.Minute)
			must(t, "delivered again", s.Handle(t.Context(), m, s.invoice(nil)), inbox.Duplicate, inbox.NoReason)
			if s.runs != 1 || s.invoices(t) != 1 {
				t.Errorf("there are %d invoices after %d runs, want one each", s.invoices(t), s.runs)
			}
		})
	}
}

// kept is a codec of the consumer that died.
type kept struct{}

func (kept) Encode(any) (*oncekeeper.Response, error) {
	return &oncekeeper.Response{Body: []byte("{}"), ContentType: client.ContentTypeJSON}, nil
}
func (kept) Decode(*oncekeeper.Response, any) error { return nil }

func TestWhatWasCommittedIsHandledWhateverTheHandlerSaysAfterIt(t *testing.T) {
	s := openShop(t, client.Request{})
	must(t, "committed, then failed", s.Handle(t.Context(), m, s.invoice(errors.New("the mail is not sent"))), inbox.Handled, inbox.NoReason)
	must(t, "delivered again", s.Handle(t.Context(), m, s.invoice(nil)), inbox.Duplicate, inbox.NoReason)
	if s.invoices(t) != 1 {
		t.Errorf("there are %d invoices", s.invoices(t))
	}
}

func TestWhatIsKnownToHaveRolledBackComesAgain(t *testing.T) {
	s := openShop(t, client.Request{MaxAttempts: 2, Hold: true})
	full := errors.New("no more invoices today")
	failing := func(ctx context.Context, _ *client.Attempt) error {
		_, err := sqlreceipt.InTx(ctx, s.receipts, func(context.Context, *sql.Tx) (string, error) { return "", full })
		return err
	}
	must(t, "rolled back", s.Handle(t.Context(), m, failing), inbox.Later, inbox.Failed)
	must(t, "committed", s.Handle(t.Context(), m, s.invoice(nil)), inbox.Handled, inbox.NoReason)
	if s.invoices(t) != 1 {
		t.Errorf("there are %d invoices", s.invoices(t))
	}
}
