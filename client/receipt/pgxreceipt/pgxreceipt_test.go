package pgxreceipt_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper/client/receipt/pgxreceipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/receipttest"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestStore(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	receipttest.Run(t, receipttest.Backend{
		Isolations: []string{string(pgx.ReadCommitted), string(pgx.RepeatableRead), string(pgx.Serializable)},
		Open: func(t *testing.T, isolation string) receipttest.Database {
			return open(t, address, pgxreceipt.Config{Isolation: pgx.TxIsoLevel(isolation)})
		},
		OpenCut: func(t *testing.T) (receipttest.Database, receipttest.Cutter) {
			proxy := receipttest.NewProxy(t, address)
			return open(t, proxy.Address, pgxreceipt.Config{}), proxy
		},
	})
}

type database struct {
	*pgxreceipt.Store
	pool *pgxpool.Pool
}

// open makes the tables anew, and a store on them.
func open(t *testing.T, address string, c pgxreceipt.Config) *database {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, statement := range []string{"DROP TABLE IF EXISTS oncekeeper_receipts, effects", pgxreceipt.Schema(), "CREATE TABLE effects (name text)"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	c.Pool = pool
	store, err := pgxreceipt.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &database{store, pool}
}

func (d *database) InTx(ctx context.Context, fn func(context.Context, receipttest.Tx) (string, error)) (string, error) {
	return pgxreceipt.InTx(ctx, d.Store, func(ctx context.Context, tx pgx.Tx) (string, error) { return fn(ctx, hand{tx}) })
}

func (d *database) Effects(t *testing.T, name string) int {
	t.Helper()
	n, err := count(t.Context(), d.pool, name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (d *database) AwaitWaiting(t *testing.T, n int) {
	t.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for until := time.Now().Add(time.Minute); ; {
		var now int
		if err := d.pool.QueryRow(t.Context(), waiting).Scan(&now); err != nil {
			t.Fatal(err)
		}
		if now >= n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d transactions wait, want %d", now, n)
		}
		time.Sleep(time.Millisecond)
	}
}

func (d *database) OneWriter() bool { return false }

func (d *database) DropTable(t *testing.T) {
	t.Helper()
	if _, err := d.pool.Exec(t.Context(), "DROP TABLE oncekeeper_receipts"); err != nil {
		t.Fatal(err)
	}
}

func count(ctx context.Context, on interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, name string) (n int, err error) {
	err = on.QueryRow(ctx, "SELECT count(*) FROM effects WHERE name = $1", name).Scan(&n)
	return n, err
}

// hand is a function's grip on its transaction.
type hand struct{ tx pgx.Tx }

func (h hand) Effect(ctx context.Context, name string) error {
	_, err := h.tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", name)
	return err
}

func (h hand) Count(ctx context.Context, name string) (int, error) { return count(ctx, h.tx, name) }

func (h hand) Fail(ctx context.Context) error {
	_, err := h.tx.Exec(ctx, "SELECT 1/0")
	return err
}

func (h hand) End(commit bool) error {
	statement := "ROLLBACK"
	if commit {
		statement = "COMMIT"
	}
	_, err := h.tx.Exec(context.Background(), statement)
	return err
}
