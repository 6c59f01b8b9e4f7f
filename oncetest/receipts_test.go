package oncetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// till is a business database with receipts, of one kind of effect.
type till struct {
	t     *testing.T
	db    *sql.DB
	store *sqlreceipt.Store
}

func newTill(t *testing.T) *till {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "till.db")+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{sqlreceipt.SQLite.Schema(), "CREATE TABLE payments (id TEXT)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	store, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	return &till{t: t, db: db, store: store}
}

// pay is the operation; before is called inside its transaction.
func (p *till) pay(ctx context.Context, id string, before func()) (string, error) {
	return sqlreceipt.InTx(ctx, p.store, func(ctx context.Context, tx *sql.Tx) (string, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO payments (id) VALUES (?)", id); err != nil {
			return "", err
		}
		before()
		return "paid " + id, nil
	})
}

func (p *till) payments(id string) (n int) {
	p.t.Helper()
	if err := p.db.QueryRowContext(p.t.Context(), "SELECT count(*) FROM payments WHERE id = ?", id).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

func order(id string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "acme", Operation: "orders.pay", ID: id}
}

// leaves has f end its goroutine, as a process that dies does.
func leaves(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// cut is a connection that a test cuts.
type cut struct {
	mu     sync.Mutex
	method string // "" for none, "*" for all
}

func (c *cut) at(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.method = method
}

func (c *cut) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.mu.Lock()
	at := c.method
	c.mu.Unlock()
	if at == "*" || at != "" && method == "/oncekeeper.v1.IdempotencyService/"+at {
		return status.Error(codes.Unavailable, "cut")
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func TestAProcessMayDieAtAnyStepAndTheOperationHappensOnce(t *testing.T) {
	steps := []struct {
		name string
		die  func(ctx context.Context, p *till)
	}{
		{"before its transaction", func(context.Context, *till) {}},
		{"inside its transaction", func(ctx context.Context, p *till) { _, _ = p.pay(ctx, "7", runtime.Goexit) }},
		{"after its commit", func(ctx context.Context, p *till) { _, _ = p.pay(ctx, "7", func() {}) }},
	}
	for _, hold := range []bool{false, true} {
		for _, step := range steps {
			t.Run(fmt.Sprintf("%s, hold %v", step.name, hold), func(t *testing.T) {
				keeper, p, wire := oncetest.Start(t), newTill(t), &cut{}
				dying := client.New(keeper.Dial(grpc.WithUnaryInterceptor(wire.intercept)), client.WithSettleTimeout(time.Nanosecond),
					client.WithLogger(slog.New(slog.DiscardHandler)))
				opts := []client.DoOption{client.WithReceipts(p.store), client.WithWait(0), client.WithReconcile(client.ReceiptsTell)}
				if hold {
					opts = append(opts, client.WithHold())
				}
				leaves(func() {
					_, _ = client.Do(t.Context(), dying, order("7"), func(ctx context.Context, _ *client.Attempt) (string, error) {
						wire.at("*")
						step.die(ctx, p)
						runtime.Goexit()
						return "", nil
					}, opts...)
				})
				if rec := keeper.Record(order("7")); rec == nil || rec.State != oncekeeper.StatePending {
					t.Fatalf("the record is %+v, want it as a dead process leaves it", rec)
				}
				keeper.Clock.Advance(time.Minute)
				for range 3 {
					got, err := client.Do(t.Context(), keeper.Client(), order("7"), func(ctx context.Context, _ *client.Attempt) (string, error) {
						return p.pay(ctx, "7", func() {})
					}, opts...)
					if got != "paid 7" || err != nil || p.payments("7") != 1 {
						t.Errorf("Do = %q, %v after %d payments", got, err, p.payments("7"))
					}
				}
				if rec := keeper.Record(order("7")); rec.State != oncekeeper.StateCompleted {
					t.Errorf("the record is %v", rec.State)
				}
			})
		}
	}
}

func TestAServiceThatLosesItsRecordsCostsNoDuplicate(t *testing.T) {
	p := newTill(t)
	for n := range 3 {
		// Each has none of the last one's records, and a clock that is no earlier.
		keeper := oncetest.Start(t)
		keeper.Clock.Advance(time.Duration(n) * time.Hour)
		got, err := client.Do(t.Context(), keeper.Client(), order("7"), func(ctx context.Context, _ *client.Attempt) (string, error) {
			return p.pay(ctx, "7", func() {})
		}, client.WithReceipts(p.store))
		if got != "paid 7" || err != nil || p.payments("7") != 1 {
			t.Errorf("service %d: Do = %q, %v after %d payments", n, got, err, p.payments("7"))
		}
	}
}

func TestThroughAnOutageEveryOrderIsPaidOnce(t *testing.T) {
	keeper, p, wire := oncetest.Start(t), newTill(t), &cut{}
	c := client.New(keeper.Dial(grpc.WithUnaryInterceptor(wire.intercept)), client.WithClock(keeper.Clock), client.WithRetryBudget(0, 0))
	const orders = 5
	for round, at := range []string{"", "*", "", "*", ""} {
		wire.at(at)
		var calls sync.WaitGroup
		for i := range orders * 2 {
			calls.Go(func() {
				id := fmt.Sprint(i % orders)
				got, err := client.Do(t.Context(), c, order(id), func(ctx context.Context, _ *client.Attempt) (string, error) {
					return p.pay(ctx, id, func() {})
				}, client.WithReceipts(p.store), client.WithOutage(client.OutageReceiptsOnly))
				if got != "paid "+id || err != nil {
					t.Errorf("round %d: Do = %q, %v", round, got, err)
				}
			})
		}
		calls.Wait()
	}
	for i := range orders {
		if n := p.payments(fmt.Sprint(i)); n != 1 {
			t.Errorf("order %d was paid %d times", i, n)
		}
	}
}

func TestARefusalInsideTheTransactionIsKeptAndClosed(t *testing.T) {
	keeper, p := oncetest.Start(t), newTill(t)
	for range 2 {
		_, err := client.Do(t.Context(), keeper.Client(), order("7"), func(ctx context.Context, _ *client.Attempt) (string, error) {
			return sqlreceipt.InTx(ctx, p.store, func(context.Context, *sql.Tx) (string, error) {
				return "", oncekeeper.Final(status.Error(codes.FailedPrecondition, "declined"))
			})
		}, client.WithReceipts(p.store))
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Do = %v, want FAILED_PRECONDITION", err)
		}
	}
	row, err := p.store.Look(t.Context(), order("7"))
	if err != nil || row.Applied() || row.Floor == 0 {
		t.Errorf("the receipt is %+v, %v; want it closed", row, err)
	}
}

func TestAReceiptIsSweptOnlyWhenItsRecordIsGone(t *testing.T) {
	keeper, p := oncetest.Start(t), newTill(t)
	pay := func() error {
		_, err := client.Do(t.Context(), keeper.Client(), order("7"), func(ctx context.Context, _ *client.Attempt) (string, error) {
			return p.pay(ctx, "7", func() {})
		}, client.WithReceipts(p.store), client.WithRetention(time.Hour))
		return err
	}
	if err := pay(); err != nil {
		t.Fatal(err)
	}
	// The receipt is of the database's clock, so the sweep is told of a time long
	// after it.
	later := client.WithClock(keeper.Clock)
	sweep := func() client.Swept {
		t.Helper()
		swept, err := client.SweepReceipts(t.Context(), keeper.Client(later), p.store, client.SweepConfig{Horizon: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return swept
	}
	if swept := sweep(); swept.Deleted != 0 || swept.Kept != 1 {
		t.Errorf("while its record is there: %+v", swept)
	}
	keeper.Clock.Advance(2 * time.Hour)
	if swept := sweep(); swept.Deleted != 1 {
		t.Errorf("when its record is gone: %+v", swept)
	}
	if row, err := p.store.Look(t.Context(), order("7")); row != nil || err != nil {
		t.Errorf("the receipt is %+v, %v", row, err)
	}
	if err := pay(); err != nil && !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Error(err)
	}
}
