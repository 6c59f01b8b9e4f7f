package business

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// opening is what an account begins with.
const opening = 1000

// shop is the business's own database: one account, what was charged to it, and
// events that are to be published.
type shop struct {
	db       *sql.DB
	dialect  sqlreceipt.Dialect
	address  string // for other processes
	receipts *sqlreceipt.Store
}

const shopSchema = `
CREATE TABLE accounts (name TEXT PRIMARY KEY, balance BIGINT NOT NULL);
INSERT INTO accounts VALUES ('acme', 1000);
CREATE TABLE charges (request TEXT NOT NULL, amount BIGINT NOT NULL);
CREATE TABLE outbox (id TEXT PRIMARY KEY, request TEXT NOT NULL, published BOOLEAN NOT NULL DEFAULT FALSE);
CREATE TABLE invoices (name TEXT PRIMARY KEY, state TEXT NOT NULL, version BIGINT NOT NULL, paid BIGINT NOT NULL);
`

// openShop makes a business database with nothing charged yet.
func openShop(t *testing.T, dialect sqlreceipt.Dialect) *shop {
	t.Helper()
	address := "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"
	if dialect == sqlreceipt.Postgres {
		address = pgtest.EmptyDatabase(t)
	}
	s, err := connectShop(address, sql.LevelDefault)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	for _, statement := range append(strings.Split(shopSchema, ";"), dialect.Schema()) {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := s.db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return s
}

// connectShop connects to the database that openShop made, from any process.
func connectShop(address string, level sql.IsolationLevel) (*shop, error) {
	driver, dialect := "sqlite", sqlreceipt.SQLite
	if strings.HasPrefix(address, "postgres") {
		driver, dialect = "pgx", sqlreceipt.Postgres
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return nil, err
	}
	receipts, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: dialect, Isolation: level})
	if err != nil {
		return nil, err
	}
	return &shop{db: db, dialect: dialect, address: address, receipts: receipts}, nil
}

// querier is a transaction or the database itself.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// charge takes amount from the account for request: the effect that must happen
// once. It refuses what is not there.
func charge(ctx context.Context, q querier, request string, amount int64) (string, error) {
	taken, err := q.ExecContext(ctx, `UPDATE accounts SET balance = balance - $1 WHERE name = 'acme' AND balance >= $1`, amount)
	if err != nil {
		return "", err
	}
	if n, err := taken.RowsAffected(); err != nil || n == 0 {
		return "", errors.Join(status.Error(codes.FailedPrecondition, "insufficient funds"), err)
	}
	if _, err := q.ExecContext(ctx, `INSERT INTO charges (request, amount) VALUES ($1, $2)`, request, amount); err != nil {
		return "", err
	}
	var left int64
	if err := q.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE name = 'acme'`).Scan(&left); err != nil {
		return "", err
	}
	return fmt.Sprintf("charged %d, %d left", amount, left), nil
}

// chargeOnce is charge in the transaction of its receipt.
func (s *shop) chargeOnce(ctx context.Context, request string, amount int64) (string, error) {
	return sqlreceipt.InTx(ctx, s.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
		return charge(ctx, tx, request, amount)
	})
}

// effects is how often request was charged, and what is left must agree with it.
func (s *shop) effects(t *testing.T, request string) (n int) {
	t.Helper()
	if err := s.db.QueryRow(`SELECT count(*) FROM charges WHERE request = $1`, request).Scan(&n); err != nil {
		t.Fatal(err)
	}
	var left, charged int64
	if err := s.db.QueryRow(`SELECT (SELECT balance FROM accounts), coalesce((SELECT sum(amount) FROM charges), 0)`).Scan(&left, &charged); err != nil {
		t.Fatal(err)
	}
	if left+charged != opening {
		t.Errorf("the books do not agree: %d left and %d charged of %d", left, charged, opening)
	}
	return n
}

// key is the key of a request to charge.
func key(request string) oncekeeper.Key {
	return oncekeeper.Key{Tenant: "acme", Operation: "charge", ID: request}
}
