package oncetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// failing is a testing.TB that keeps what a test says of itself.
type failing struct {
	testing.TB
	mu     sync.Mutex
	faults []string
}

func (f *failing) Helper() {}
func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}
func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

// faultsOf gives what OneEffect finds wrong with the subject.
func faultsOf(t *testing.T, prepare func(testing.TB, *oncetest.Trial) oncetest.Subject, kinds ...oncetest.Kind) []string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		oncetest.OneEffect(f, prepare, kinds...)
	}()
	<-done
	return f.faults
}

// bank is what a payment changes.
type bank struct {
	mu    sync.Mutex
	paid  int
	last  int64
	known bool
}

func (b *bank) effects() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paid
}

// pay pays whenever it is asked.
func (b *bank) pay(context.Context, *client.Attempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid++
	return nil
}

// payFenced is told who asks: it refuses an attempt that another took over from, and
// knows what it paid.
func (b *bank) payFenced(_ context.Context, a *client.Attempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.Token() < b.last:
		return errors.New("a later attempt was here")
	case b.known:
		return nil
	}
	b.last, b.known = a.Token(), true
	b.paid++
	return nil
}

// lookOnTakeover looks where it is told that it takes over, and pays otherwise, if it
// still may.
func (b *bank) lookOnTakeover(ctx context.Context, a *client.Attempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Takeover() && b.known {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b.known = true
	b.paid++
	return nil
}

type handler = func(context.Context, *client.Attempt) error

// byDo is a subject behind client.Do.
func byDo(of func(*bank) handler, opts ...client.DoOption) func(testing.TB, *oncetest.Trial) oncetest.Subject {
	return func(_ testing.TB, trial *oncetest.Trial) oncetest.Subject {
		b, c := &bank{}, trial.Client()
		return oncetest.Subject{Effects: b.effects, Call: func(ctx context.Context) error {
			_, err := client.Do(ctx, c, key, func(ctx context.Context, a *client.Attempt) (string, error) {
				return "paid", trial.Around(ctx, func(ctx context.Context) error { return of(b)(ctx, a) })
			}, opts...)
			return err
		}}
	}
}

func careless(b *bank) handler { return b.pay }
func fenced(b *bank) handler   { return b.payFenced }
func looking(b *bank) handler  { return b.lookOnTakeover }

var beyondAGuard = []oncetest.Kind{oncetest.Crashed, oncetest.LeaseOutlived, oncetest.WokenLate}

func TestAHandlerThatKnowsItsAttemptHasOneEffectUnderEveryKindOfTrouble(t *testing.T) {
	oncetest.OneEffect(t, byDo(fenced))
	oncetest.OneEffect(t, byDo(looking))
	oncetest.OneEffect(t, byDo(fenced, client.WithWait(0)))
}

func TestAHandlerThatIsOnlyGuardedFailsWhereAnEffectStandsAlready(t *testing.T) {
	for _, kind := range oncetest.Kinds() {
		faults := faultsOf(t, byDo(careless), kind)
		if failed := len(faults) > 0; failed != slices.Contains(beyondAGuard, kind) {
			t.Errorf("%s: %q", kind, faults)
		}
		for _, fault := range faults {
			if !strings.HasPrefix(fault, string(kind)+": the effect happened 2 times") {
				t.Errorf("it says %q", fault)
			}
		}
	}
}

func TestAHandlerWithoutAGuardFailsUnderEveryKindOfTrouble(t *testing.T) {
	unguarded := func(_ testing.TB, trial *oncetest.Trial) oncetest.Subject {
		b := &bank{}
		return oncetest.Subject{Effects: b.effects, Call: func(ctx context.Context) error {
			return trial.Around(ctx, func(ctx context.Context) error { return b.pay(ctx, nil) })
		}}
	}
	for _, kind := range oncetest.Kinds() {
		if faults := faultsOf(t, unguarded, kind); len(faults) != 1 || !strings.Contains(faults[0], "the effect happened") {
			t.Errorf("%s: it is told %q", kind, faults)
		}
	}
	if faults := faultsOf(t, unguarded); len(faults) != len(oncetest.Kinds()) {
		t.Errorf("all kinds together tell %q", faults)
	}
}

func TestASubjectThatProvesNothingFails(t *testing.T) {
	for name, c := range map[string]struct {
		subject oncetest.Subject
		says    string
	}{
		"nothing happens":         {oncetest.Subject{Call: func(context.Context) error { return nil }, Effects: func() int { return 0 }}, "the effect happened 0 times"},
		"the handler is not seen": {oncetest.Subject{Call: func(context.Context) error { return nil }, Effects: func() int { return 1 }}, "no handler was seen"},
		"it is never answered":    {oncetest.Subject{Call: func(context.Context) error { return errors.New("no") }, Effects: func() int { return 1 }}, "still gives no"},
	} {
		faults := faultsOf(t, func(testing.TB, *oncetest.Trial) oncetest.Subject { return c.subject }, oncetest.SentTwice)
		if !strings.Contains(strings.Join(faults, "\n"), c.says) {
			t.Errorf("%s: it is told %q", name, faults)
		}
	}
	if faults := faultsOf(t, byDo(fenced), "meteorite"); len(faults) != 1 || !strings.Contains(faults[0], "meteorite") {
		t.Errorf("an unknown kind is told %q", faults)
	}
}

type debits struct {
	paymentsv1.UnimplementedPaymentServiceServer
	pay func(ctx context.Context) error
}

func (d debits) Debit(ctx context.Context, _ *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	return &paymentsv1.DebitResponse{Name: "debits/1"}, d.pay(ctx)
}

func tenant(context.Context) (string, error) { return "acme", nil }

// serve serves a guarded payment service, and gives a client of it.
func serve(t testing.TB, keeper *client.Client, inner grpc.UnaryServerInterceptor, pay func(ctx context.Context) error, outer ...grpc.UnaryClientInterceptor) paymentsv1.PaymentServiceClient {
	t.Helper()
	guard, err := grpcguard.New(keeper, grpcguard.Config{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary(), inner))
	paymentsv1.RegisterPaymentServiceServer(srv, debits{pay: pay})
	lis := bufconn.Listen(1 << 16)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:payments", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithChainUnaryInterceptor(outer...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return paymentsv1.NewPaymentServiceClient(conn)
}

func TestAGuardedGRPCHandlerIsTriedWhereItStands(t *testing.T) {
	prepare := func(of func(*bank) handler) func(testing.TB, *oncetest.Trial) oncetest.Subject {
		return func(t testing.TB, trial *oncetest.Trial) oncetest.Subject {
			b := &bank{}
			c := serve(t, trial.Client(), trial.UnaryServer(), func(ctx context.Context) error {
				a, _ := grpcguard.AttemptFrom(ctx)
				return of(b)(ctx, a)
			}, attach.UnaryClientInterceptor(attach.WithMaxElapsed(0)))
			return oncetest.Subject{Effects: b.effects, Call: func(ctx context.Context) error {
				_, err := c.Debit(ctx, &paymentsv1.DebitRequest{RequestId: "order-17", Amount: 10})
				return err
			}}
		}
	}
	oncetest.OneEffect(t, prepare(fenced))
	for _, kind := range oncetest.Kinds() {
		if faults := faultsOf(t, prepare(careless), kind); (len(faults) > 0) != slices.Contains(beyondAGuard, kind) {
			t.Errorf("only guarded, %s: %q", kind, faults)
		}
	}
}

func TestAGuardedHTTPHandlerIsTriedWhereItStands(t *testing.T) {
	oncetest.OneEffect(t, func(t testing.TB, trial *oncetest.Trial) oncetest.Subject {
		b := &bank{}
		guard, err := httpguard.New(trial.Client(), httpguard.Config{Tenant: func(*http.Request) (string, error) { return "acme", nil }})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(guard.Operation("charges.create")(trial.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a, _ := client.AttemptFromContext(r.Context())
			if err := b.payFenced(r.Context(), a); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))))
		t.Cleanup(server.Close)
		return oncetest.Subject{Effects: b.effects, Call: func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			r.Header.Set("Idempotency-Key", `"order-17"`)
			response, err := server.Client().Do(r)
			if err != nil {
				return err
			}
			if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusCreated {
				return fmt.Errorf("it is answered %s, %w", response.Status, err)
			}
			return nil
		}}
	})
}

func TestAConsumerWithReceiptsIsTriedWhereItStands(t *testing.T) {
	oncetest.OneEffect(t, func(t testing.TB, trial *oncetest.Trial) oncetest.Subject {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		for _, statement := range []string{sqlreceipt.SQLite.Schema(), "CREATE TABLE payments (id text)"} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		receipts, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
		if err != nil {
			t.Fatal(err)
		}
		orders, err := inbox.New(trial.Client(), inbox.Config{Tenant: "acme", Subscriber: "payments", Request: client.Request{Receipts: receipts}})
		if err != nil {
			t.Fatal(err)
		}
		return oncetest.Subject{
			Call: func(ctx context.Context) error {
				r := orders.Handle(ctx, inbox.Message{ID: "order-17"}, func(ctx context.Context, _ *client.Attempt) error {
					return trial.Around(ctx, func(ctx context.Context) error {
						_, err := sqlreceipt.InTx(ctx, receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
							_, err := tx.ExecContext(ctx, "INSERT INTO payments VALUES ('order-17')")
							return "paid", err
						})
						return err
					})
				})
				if r.Verdict == inbox.Handled || r.Verdict == inbox.Duplicate {
					return nil
				}
				return fmt.Errorf("%v (%v): %w", r.Verdict, r.Reason, r.Err)
			},
			Effects: func() (n int) {
				if err := db.QueryRow("SELECT count(*) FROM payments").Scan(&n); err != nil {
					t.Errorf("counting: %v", err)
				}
				return n
			},
		}
	})
}
