package business

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// delivery is a webhook about an invoice.
type delivery struct {
	id      string
	state   string
	version int64
	paid    int64
}

// 8. The delivery id says what was taken; which state is the newest only the event
// itself can say, so the handler goes by its version.
func TestAWebhookThatIsReplayedAndOutOfOrderIsTakenOnce(t *testing.T) {
	inEveryWorld(t, func(w *world) {
		created, part, rest := delivery{"d-1", "open", 1, 0}, delivery{"d-2", "partly paid", 2, 60}, delivery{"d-3", "paid", 3, 40}
		hooks, err := inbox.New(w.keeper, inbox.Config{
			Tenant: "acme", Subscriber: "webhooks", Request: client.Request{Lease: longLease, Receipts: w.receipts},
		})
		if err != nil {
			w.Fatal(err)
		}
		guarded := w.receiver(func(ctx context.Context, d delivery) error {
			r := hooks.Handle(ctx, inbox.Message{ID: d.id, Fingerprint: fingerprint.Raw([]byte(d.state))}, func(ctx context.Context, _ *client.Attempt) error {
				_, err := sqlreceipt.InTx(ctx, w.receipts, func(ctx context.Context, tx *sql.Tx) (bool, error) {
					return true, take(ctx, tx, "guarded", d)
				})
				return err
			})
			return r.Err
		})
		naive := w.receiver(func(ctx context.Context, d delivery) error {
			_, err := w.db.ExecContext(ctx, `INSERT INTO invoices VALUES ('naive', $1, $2, $3)
				ON CONFLICT (name) DO UPDATE SET state = excluded.state, version = excluded.version, paid = invoices.paid + excluded.paid`,
				d.state, d.version, d.paid)
			return err
		})
		for _, d := range []delivery{part, created, rest, part, created, rest, part} {
			w.deliver(guarded, d)
			w.deliver(naive, d)
		}
		if state, paid := w.invoice("guarded"); state != "paid" || paid != 100 {
			w.Errorf("the invoice is %s, with %d paid; want paid, with 100", state, paid)
		}
		if state, paid := w.invoice("naive"); state == "paid" || paid == 100 {
			w.Errorf("the naive invoice is %s, with %d paid, and shows nothing", state, paid)
		}
	})
}

// take adds what was paid, and of the states keeps the newest.
func take(ctx context.Context, tx *sql.Tx, invoice string, d delivery) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO invoices VALUES ($1, $2, $3, $4)
		ON CONFLICT (name) DO UPDATE SET paid = invoices.paid + excluded.paid,
			state = CASE WHEN excluded.version > invoices.version THEN excluded.state ELSE invoices.state END,
			version = CASE WHEN excluded.version > invoices.version THEN excluded.version ELSE invoices.version END`,
		invoice, d.state, d.version, d.paid)
	return err
}

// receiver takes webhooks over HTTP, and acknowledges what handle took.
func (w *world) receiver(handle func(context.Context, delivery) error) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		version, _ := strconv.ParseInt(r.Header.Get("version"), 10, 64)
		paid, _ := strconv.ParseInt(r.Header.Get("paid"), 10, 64)
		if err := handle(r.Context(), delivery{r.Header.Get("delivery"), r.Header.Get("state"), version, paid}); err != nil {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	w.Cleanup(srv.Close)
	return srv
}

func (w *world) deliver(to *httptest.Server, d delivery) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, to.URL, strings.NewReader(""))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("delivery", d.id)
	r.Header.Set("state", d.state)
	r.Header.Set("version", strconv.FormatInt(d.version, 10))
	r.Header.Set("paid", strconv.FormatInt(d.paid, 10))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.Errorf("%s is answered %s", d.id, resp.Status)
	}
}

func (w *world) invoice(name string) (state string, paid int64) {
	w.Helper()
	if err := w.db.QueryRow(`SELECT state, paid FROM invoices WHERE name = $1`, name).Scan(&state, &paid); err != nil {
		w.Fatal(err)
	}
	return state, paid
}
