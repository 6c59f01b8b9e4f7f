package httpguard_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

func TestInAnOutageAnOperationRunsAsItSays(t *testing.T) {
	down := func(string) error { return status.Error(codes.Unavailable, "down") }
	t.Run("closed", func(t *testing.T) {
		k, l := startKeeper(t), openLedger(t)
		g := serve(t, k, httpguard.Config{Receipts: l.Store}, l.handle)
		k.breakWith(down)
		refusal(t, g.charge(t, "k"), 503, "urn:oncekeeper:store-unavailable")
		if l.charges(t) != 0 {
			t.Error("it was charged")
		}
	})
	t.Run("receipts only", func(t *testing.T) {
		k, l := startKeeper(t), openLedger(t)
		g := serve(t, k, httpguard.Config{Receipts: l.Store}, l.handle, httpguard.WithOutage(client.OutageReceiptsOnly))
		k.breakWith(down)
		wantCharged(t, g.charge(t, "k"), true)
		wantCharged(t, g.charge(t, "k"), false)
		refusal(t, g.send(t, "k", `{"amount": 6}`), 422, "urn:oncekeeper:fingerprint-mismatch")
		k.breakWith(nil)
		wantCharged(t, g.charge(t, "k"), false)
		if l.charges(t) != 1 {
			t.Errorf("%d charges were made", l.charges(t))
		}
		if got := g.guard.Stats(); got.OutageReceipts == 0 {
			t.Errorf("counted %+v", got)
		}
	})
	t.Run("receipts only, of a key that was closed", func(t *testing.T) {
		k, l := startKeeper(t), openLedger(t)
		refuse := true
		g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
			if refuse {
				httpguard.SettleAs(r.Context(), oncekeeper.SettledRetryable)
				w.WriteHeader(500)
				return
			}
			l.handle(w, r)
		}, httpguard.WithOutage(client.OutageReceiptsOnly))
		mustBe(t, g.charge(t, "k"), 500)
		refuse = false
		k.breakWith(down)
		refusal(t, g.charge(t, "k"), 503, "urn:oncekeeper:store-unavailable")
		if l.charges(t) != 0 {
			t.Error("it was charged")
		}
	})
	for name, c := range map[string]struct {
		meanwhile func(*testing.T, *ledger, receipt.Claim)
		status    int
		kind      string
	}{
		"is closed": {func(t *testing.T, l *ledger, claim receipt.Claim) {
			if _, err := l.Close(t.Context(), claim, 7); err != nil {
				t.Error(err)
			}
		}, 503, "urn:oncekeeper:store-unavailable"},
		"is applied for another request": {func(t *testing.T, l *ledger, claim receipt.Claim) {
			claim.Fingerprint = []byte("another")
			ctx := receipt.WithPermit(t.Context(), &receipt.Permit{Claim: claim, Codec: plain{}})
			if _, err := sqlreceipt.InTx(ctx, l.Store, func(context.Context, *sql.Tx) (string, error) { return "other", nil }); err != nil {
				t.Error(err)
			}
		}, 422, "urn:oncekeeper:fingerprint-mismatch"},
	} {
		t.Run("receipts only, of a key that meanwhile "+name, func(t *testing.T) {
			k, l := startKeeper(t), openLedger(t)
			g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
				a, _ := httpguard.AttemptFrom(r.Context())
				scheme, digest := a.Fingerprint()
				c.meanwhile(t, l, receipt.Claim{Key: a.Key(), FingerprintScheme: scheme, Fingerprint: digest})
				l.handle(w, r)
			}, httpguard.WithOutage(client.OutageReceiptsOnly))
			k.breakWith(down)
			refusal(t, g.charge(t, "k"), c.status, c.kind)
			if l.charges(t) != 0 {
				t.Error("it was charged")
			}
		})
	}
	t.Run("open", func(t *testing.T) {
		k := startKeeper(t)
		g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if _, ok := httpguard.AttemptFrom(r.Context()); ok {
				t.Error("it has an attempt")
			}
			echo(w, r)
		}, httpguard.WithOutage(client.OutageOpen))
		k.breakWith(down)
		for range 2 {
			if got := g.charge(t, "k"); got.status != 201 || got.body != `{"amount": 5}` || got.replayed() {
				t.Errorf("the answer is %d %q", got.status, got.body)
			}
		}
		if got := g.guard.Stats(); got != (httpguard.Stats{Ran: 2, OutageOpen: 2}) {
			t.Errorf("counted %+v", got)
		}
	})
}

func TestAReconcilerIsAskedAboutTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		found  client.Finding
		err    error
		status int
		runs   int
	}{
		"it happened":    {client.Happened, nil, 201, 1},
		"it did not":     {client.DidNotHappen, nil, 202, 2},
		"it cannot tell": {client.CannotTell, nil, 503, 1},
		"it fails":       {client.Happened, errors.New("the bank is closed"), 503, 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t)
			g := serve(t, k, httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if httpguard.Takeover(r.Context()) {
					w.WriteHeader(202)
					return
				}
				w.WriteHeader(500)
			}, httpguard.WithReconcile(func(q client.Question, r *http.Request) (client.Finding, httpguard.Response, error) {
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != `{"amount": 5}` || q.Key != charge("k") || r.Context().Err() != nil {
					t.Errorf("it is asked about %v with the body %q, %v", q, body, err)
				}
				return c.found, charged, c.err
			}))
			mustBe(t, g.charge(t, "k"), 500)
			got := g.charge(t, "k")
			if mustBe(t, got, c.status); c.status == 201 {
				wantCharged(t, got, false)
			}
			if g.runs() != c.runs {
				t.Errorf("%d runs, want %d", g.runs(), c.runs)
			}
		})
	}
}

func TestReceiptsTellOfAKeyThatIsHeld(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	first := true
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
		if first {
			first = false
			w.WriteHeader(500)
			return
		}
		l.handle(w, r)
	}, httpguard.WithHold(), httpguard.WithReconcile(httpguard.ReceiptsTell))
	mustBe(t, g.charge(t, "k"), 500)
	wantCharged(t, g.charge(t, "k"), true)
	if l.charges(t) != 1 {
		t.Errorf("%d charges were made", l.charges(t))
	}
}
