package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// away is a store of receipts whose database is down.
type away struct{ receipt.Store }

func (away) Look(context.Context, oncekeeper.Key) (*receipt.Receipt, error) {
	return nil, errors.New("the database is down")
}

func (away) Close(context.Context, receipt.Claim, int64) (*receipt.Receipt, error) {
	return nil, errors.New("the database is down")
}

// An attempt is granted before its receipt is looked for.
func TestAnOutageOfTheReceiptsUsesNoAttemptUp(t *testing.T) {
	s := openShop(t, client.Request{MaxAttempts: 3})
	outage := s.named(t, "invoices", client.Request{MaxAttempts: 3, Receipts: away{s.receipts}})
	must(t, "at first", outage.Handle(t.Context(), m, s.giving(errors.New("the database is down"))), inbox.Later, inbox.Failed)
	for range 5 {
		must(t, "in the outage", outage.Handle(t.Context(), m, s.giving(nil)), inbox.Later, inbox.Unavailable)
	}
	if rec := s.record(m.ID); rec.Number != 1 || s.runs != 1 {
		t.Errorf("%d attempts are counted of %d runs; want one of one", rec.Number, s.runs)
	}
	must(t, "after it", s.Handle(t.Context(), m, s.invoice(nil)), inbox.Handled, inbox.NoReason)
	if rec := s.record(m.ID); rec.Number != 2 || s.invoices(t) != 1 {
		t.Errorf("there are %d invoices after %d attempts, want one after two", s.invoices(t), rec.Number)
	}
}

// A dead letter is a refusal, and with no service nothing closes the key to attempts
// that began before.
func TestAFinalFailureWhileTheServiceIsAwayIsNoDeadLetter(t *testing.T) {
	s := openShop(t, client.Request{Outage: client.OutageReceiptsOnly})
	away := client.New(s.keeper.Dial(grpc.WithUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		return status.Error(codes.Unavailable, "away")
	})), client.WithRetryBudget(0, 0))
	i, err := inbox.New(away, inbox.Config{
		Tenant: "acme", Subscriber: "invoices", Logger: slog.New(slog.DiscardHandler),
		Request: client.Request{Outage: client.OutageReceiptsOnly, Receipts: s.receipts},
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, "a final failure", i.Handle(t.Context(), m, s.giving(oncekeeper.Final(errors.New("no such customer")))), inbox.Later, inbox.Unavailable)
	must(t, "an effect", i.Handle(t.Context(), m, s.invoice(nil)), inbox.Handled, inbox.NoReason)
	if s.invoices(t) != 1 || s.runs != 2 {
		t.Errorf("there are %d invoices after %d runs, want one after two", s.invoices(t), s.runs)
	}
}
