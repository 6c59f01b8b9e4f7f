package httpguard_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// ledger is a business database with receipts in it.
type ledger struct {
	*sqlreceipt.Store
	db *sql.DB
}

func openLedger(t *testing.T) *ledger {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, statement := range []string{sqlreceipt.SQLite.Schema(), "CREATE TABLE charges (amount int)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	store, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{Store: store, db: db}
}

// charges is how many were made.
func (l *ledger) charges(t *testing.T) int {
	t.Helper()
	var n int
	if err := l.db.QueryRow("SELECT count(*) FROM charges").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// charged is what the ledger's handler answers.
var charged = httpguard.Response{
	Status: 201, Body: []byte("{ \"id\" : \"ch_1\" }\n"),
	Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/charges/ch_1"}, "Set-Cookie": {"session=secret"}},
}

// charge makes a charge and gives response with it, or fails as failure says.
func (l *ledger) charge(ctx context.Context, response httpguard.Response, failure error) (httpguard.Response, error) {
	return sqlreceipt.InTx(ctx, l.Store, func(ctx context.Context, tx *sql.Tx) (httpguard.Response, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES (5)"); err != nil {
			return httpguard.Response{}, err
		}
		return response, failure
	})
}

// handle is a handler that charges in a transaction.
func (l *ledger) handle(w http.ResponseWriter, r *http.Request) {
	response, err := l.charge(r.Context(), charged, nil)
	if err != nil {
		httpguard.SettleBy(r.Context(), err)
		http.Error(w, "it failed", http.StatusInternalServerError)
		return
	}
	response.Give(w)
}

func wantCharged(t *testing.T, got reply, cookie bool) {
	t.Helper()
	if got.status != 201 || got.body != string(charged.Body) || got.header.Get("Content-Type") != "application/json" || got.header.Get("Location") != "/charges/ch_1" || (got.header.Get("Set-Cookie") != "") != cookie {
		t.Errorf("the answer is %d %q with the header %v (%v), want the charge; a cookie: %t", got.status, got.body, got.header, got.err, cookie)
	}
}

func downFor(methods ...string) func(string) error {
	return func(method string) error {
		for _, m := range methods {
			if m == method {
				return status.Error(codes.PermissionDenied, "not now") // a settlement is tried again all its time
			}
		}
		return nil
	}
}

func TestAChargeInATransactionIsMadeOnce(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, l.handle)
	wantCharged(t, g.charge(t, "k"), true)
	got := g.charge(t, "k")
	wantCharged(t, got, false)
	if !got.replayed() || l.charges(t) != 1 {
		t.Errorf("a replay: %t, after %d charges", got.replayed(), l.charges(t))
	}
	mustBe(t, g.send(t, "k", `{"amount": 6}`), 422)
}

// The service never heard of the charge; its receipt did.
func TestAChargeThatCouldNotBeSettledIsFoundByItsReceipt(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	k.connect(client.WithSettleTimeout(10 * time.Millisecond))
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, l.handle)
	k.breakWith(downFor("Complete", "Fail"))
	wantCharged(t, g.charge(t, "k"), true)
	k.breakWith(nil)
	k.Clock.Advance(time.Hour)
	got := g.charge(t, "k")
	wantCharged(t, got, false)
	if !got.replayed() || l.charges(t) != 1 || g.runs() != 1 {
		t.Errorf("a replay: %t, after %d charges and %d runs", got.replayed(), l.charges(t), g.runs())
	}
}

func TestWhatWasCommittedIsTheAnswerWhateverTheHandlerWrites(t *testing.T) {
	for name, then := range map[string]func(w http.ResponseWriter, r *http.Request){
		"nothing":        func(http.ResponseWriter, *http.Request) {},
		"a failure":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
		"another answer": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); _, _ = io.WriteString(w, "other") },
		"another word": func(w http.ResponseWriter, r *http.Request) {
			httpguard.SettleAs(r.Context(), oncekeeper.SettledRetryable)
			w.WriteHeader(429)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, l := startKeeper(t), openLedger(t)
			g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
				if _, err := l.charge(r.Context(), charged, nil); err != nil {
					t.Error(err)
				}
				then(w, r)
			})
			for n := range 2 {
				got := g.charge(t, "k")
				wantCharged(t, got, false)
				if got.replayed() != (n > 0) {
					t.Errorf("answer %d is a replay: %t", n, got.replayed())
				}
			}
		})
	}
}

func TestAPanicBehindTheCommitLeavesTheAnswer(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := l.charge(r.Context(), charged, nil); err != nil {
			t.Error(err)
		}
		panic("at the disco")
	})
	if got := g.do(g.request(t, "k", `{"amount": 5}`)); got.err == nil {
		t.Errorf("the panic is answered %d", got.status)
	}
	got := g.charge(t, "k")
	if wantCharged(t, got, false); !got.replayed() || g.runs() != 1 {
		t.Errorf("a replay: %t, after %d runs", got.replayed(), g.runs())
	}
}

func TestALargeAnswerThatIsNotWhatWasCommittedIsBrokenOff(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := l.charge(r.Context(), charged, nil); err != nil {
			t.Error(err)
		}
		writes(limit+1, 1000, false)(w, r)
	})
	if got := g.do(g.request(t, "k", `{"amount": 5}`)); got.err == nil {
		t.Errorf("its caller has %d bytes, and no error", len(got.body))
	}
	wantCharged(t, g.charge(t, "k"), false)

	// Also where it is as long.
	g = serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
		large := httpguard.Response{Status: 201, Header: http.Header{"Content-Type": {"application/octet-stream"}}, Body: []byte(strings.Repeat("y", limit+1))}
		if _, err := l.charge(r.Context(), large, nil); err != nil {
			t.Error(err)
		}
		writes(limit+1, 1000, false)(w, r)
	})
	if got := g.do(g.request(t, "as long", `{"amount": 5}`, withHeader("Idempotency-Key", `"as long"`))); got.err == nil {
		t.Errorf("its caller has %d bytes, and no error", len(got.body))
	}
}

func TestALargeAnswerThatWasCommittedIsWholeForItsCaller(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	large := httpguard.Response{Status: 201, Body: []byte(strings.Repeat("x", limit+1))}
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
		response, err := l.charge(r.Context(), large, nil)
		if err != nil {
			t.Error(err)
		}
		response.Give(w)
	})
	if got := g.charge(t, "k"); got.status != 201 || len(got.body) != limit+1 {
		t.Errorf("its caller has %d with %d bytes", got.status, len(got.body))
	}
	// The service has not kept it, and the receipt has.
	if got := g.charge(t, "k"); got.status != 201 || got.body != string(large.Body) || !got.replayed() {
		t.Errorf("the next one has %d with %d bytes, a replay: %t", got.status, len(got.body), got.replayed())
	}
}

func TestATransactionThatRolledBackFreesTheKey(t *testing.T) {
	down := errors.New("the bank is down")
	for name, c := range map[string]struct {
		failure error
		status  int
		options []httpguard.Option
		want    oncekeeper.State
	}{
		"by itself":                        {down, 500, nil, oncekeeper.StateReleased},
		"with a conflict":                  {down, 409, nil, oncekeeper.StateReleased},
		"where the code is the answer":     {down, 404, nil, oncekeeper.StateCompleted},
		"where the table says unknown":     {down, 500, []httpguard.Option{httpguard.WithStatus(oncekeeper.SettledUnknown, 500)}, oncekeeper.StateAbandoned},
		"and the handler says it is final": {oncekeeper.Final(down), 500, nil, oncekeeper.StateCompleted},
		"and says so itself":               {oncekeeper.NotApplied(down), 404, nil, oncekeeper.StateReleased},
	} {
		t.Run(name, func(t *testing.T) {
			k, l := startKeeper(t), openLedger(t)
			g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
				_, err := l.charge(r.Context(), charged, c.failure)
				if !errors.Is(err, down) {
					t.Errorf("InTx gives %v", err)
				}
				httpguard.SettleBy(r.Context(), err)
				w.WriteHeader(c.status)
			}, c.options...)
			mustBe(t, g.charge(t, "k"), c.status)
			if got := k.state(t, "k"); got != c.want || l.charges(t) != 0 {
				t.Errorf("the key is %v after %d charges, want %v", got, l.charges(t), c.want)
			}
		})
	}
}

func TestWithReceiptsATakeoverBelievesARefusal(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
		if httpguard.Takeover(r.Context()) {
			w.WriteHeader(404)
			return
		}
		w.WriteHeader(500)
	})
	mustBe(t, g.charge(t, "k"), 500)
	mustBe(t, g.charge(t, "k"), 404)
	if got := k.state(t, "k"); got != oncekeeper.StateCompleted {
		t.Errorf("the key is %v, want COMPLETED", got)
	}
}

// plain keeps a string.
type plain struct{}

func (plain) Encode(v any) (*oncekeeper.Response, error) {
	return &oncekeeper.Response{StatusCode: 201, Body: []byte(v.(string))}, nil
}
func (plain) Decode(*oncekeeper.Response, any) error { return errors.New("not asked for") }

// An attempt that was given up for dead charges after all, while its successor
// refuses: the refusal is not what counts.
func TestARefusalYieldsToAnEffectThatItsReceiptShows(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": limit + 1} {
		t.Run(name, func(t *testing.T) {
			k, l := startKeeper(t), openLedger(t)
			var zombie receipt.Claim
			g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
				a, _ := httpguard.AttemptFrom(r.Context())
				if !a.Takeover() {
					scheme, digest := a.Fingerprint()
					zombie = receipt.Claim{Key: a.Key(), Token: a.Token(), FingerprintScheme: scheme, Fingerprint: digest}
					w.WriteHeader(500)
					return
				}
				ctx := receipt.WithPermit(t.Context(), &receipt.Permit{Claim: zombie, Codec: plain{}})
				if _, err := sqlreceipt.InTx(ctx, l.Store, func(context.Context, *sql.Tx) (string, error) { return "zombie", nil }); err != nil {
					t.Error(err)
				}
				w.WriteHeader(404)
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			})
			mustBe(t, g.charge(t, "k"), 500)
			got := g.do(g.request(t, "k", `{"amount": 5}`))
			if size > limit && got.err == nil {
				t.Errorf("its caller has %d bytes, and no error: want it broken off", len(got.body))
			}
			if size <= limit && (got.status != 201 || got.body != "zombie") {
				t.Errorf("its caller has %d %q, want what was charged", got.status, got.body)
			}
			if got := g.charge(t, "k"); got.status != 201 || got.body != "zombie" || !got.replayed() {
				t.Errorf("the next one has %d %q", got.status, got.body)
			}
		})
	}
}

// closedFor is a store of receipts whose closing fails.
type closedFor struct{ *sqlreceipt.Store }

func (closedFor) Close(context.Context, receipt.Claim, int64) (*receipt.Receipt, error) {
	return nil, errors.New("the database at db.internal is down")
}

func TestARefusalThatCouldNotBeKeptIsNotGiven(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: closedFor{l.Store}}, func(w http.ResponseWriter, r *http.Request) {
		var wanted int
		switch r.URL.Path {
		case "/refuse":
			wanted = 402
		case "/answer":
			wanted = 201
		}
		w.WriteHeader(wanted)
	})
	path := func(p string) sent { return func(r *http.Request) { r.URL.Path = p } }
	got := g.charge(t, "refused", path("/refuse"))
	if refusal(t, got, 503, "urn:oncekeeper:outcome-unknown"); strings.Contains(got.body, "internal") {
		t.Errorf("it says %q", got.body)
	}
	mustBe(t, g.charge(t, "answered", path("/answer")), 201)
	for _, id := range []string{"refused", "answered"} {
		if got := k.state(t, id); got != oncekeeper.StateAbandoned {
			t.Errorf("%s is %v, want ABANDONED", id, got)
		}
	}
}

// No receipt is closed for an attempt that was stopped, so what it refused may be
// done by the next one.
func TestARefusalOfAnAttemptThatWasStoppedIsNotGiven(t *testing.T) {
	for status, want := range map[int]int{402: 503, 409: 409, 500: 500} {
		k, l := startKeeper(t), openLedger(t)
		cfg := httpguard.Config{Receipts: l.Store}
		stopped := serve(t, k, cfg, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(status)
		}, httpguard.WithMaxRunTime(time.Millisecond))
		got := stopped.charge(t, "k")
		mustBe(t, got, want)
		if want == 503 {
			refusal(t, got, 503, "urn:oncekeeper:outcome-unknown")
		}
		wantCharged(t, serve(t, k, cfg, l.handle).charge(t, "k"), true)
	}
}

// The service was lost, and its new clock is behind an earlier attempt's token.
func TestARequestThatTheFloorRefusesIsToComeBack(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, l.handle)
	if _, err := l.Close(t.Context(), receipt.Claim{Key: charge("k")}, 1<<52); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first one runs, and the next one looks before
		refusal(t, g.charge(t, "k"), 503, "urn:oncekeeper:store-unavailable")
	}
	if n := l.charges(t); n != 0 || g.runs() != 1 {
		t.Errorf("%d charges in %d runs", n, g.runs())
	}
}

func TestWhatInTxGivesIsAResponse(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	for says, call := range map[string]func(context.Context) error{
		"InTx gives a string": func(ctx context.Context) error {
			_, err := sqlreceipt.InTx(ctx, l.Store, func(context.Context, *sql.Tx) (string, error) { return "charged", nil })
			return err
		},
		"gives the status 103": func(ctx context.Context) error {
			_, err := l.charge(ctx, httpguard.Response{Status: 103}, nil)
			return err
		},
	} {
		g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
			err := call(r.Context())
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("InTx gives %v, want an error that says %q", err, says)
			}
			httpguard.SettleBy(r.Context(), err)
			w.WriteHeader(500)
		})
		id := strings.ReplaceAll(says, " ", "-")
		mustBe(t, g.charge(t, id), 500)
		if got := k.state(t, id); got != oncekeeper.StateReleased || l.charges(t) != 0 {
			t.Errorf("the key is %v after %d charges", got, l.charges(t))
		}
	}
	mustPanic(t, "needs Config.Receipts", httpguard.WithOutage(client.OutageReceiptsOnly))
	mustPanic(t, "is no outage mode", httpguard.WithOutage(9))
}

func TestAnOperationMayLeaveNoReceipts(t *testing.T) {
	k, l := startKeeper(t), openLedger(t)
	g := serve(t, k, httpguard.Config{Receipts: l.Store}, func(w http.ResponseWriter, r *http.Request) {
		if receipt.PermitFrom(r.Context()) != nil {
			t.Error("it has leave to write one")
		}
		w.WriteHeader(201)
	}, httpguard.WithoutReceipts())
	mustBe(t, g.charge(t, "k"), 201)
}
