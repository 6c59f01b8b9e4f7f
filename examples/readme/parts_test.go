package readme_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// What the README leaves to its reader.

type payments struct {
	paymentsv1.UnimplementedPaymentServiceServer
}

type message struct{ ID string }

var (
	debits, sent int
	errClosed    = errors.New("the account is closed")
)

func closed(account string) bool { return account == "" }

func (p *payments) debit(context.Context, *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	debits++
	return &paymentsv1.DebitResponse{Name: fmt.Sprintf("debits/%d", debits)}, nil
}

func send(_ context.Context, _ message, token int64) (string, error) {
	sent++
	return fmt.Sprint("sent under token ", token), nil
}

type accountKey struct{}

func authenticate(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(context.WithValue(ctx, accountKey{}, "acme"), req)
}

func accountOf(ctx context.Context) (string, error) {
	account, ok := ctx.Value(accountKey{}).(string)
	if !ok {
		return "", errors.New("nobody is authenticated")
	}
	return account, nil
}

type shop struct {
	db       *sql.DB
	receipts *sqlreceipt.Store
}

func newShop(t *testing.T) *shop {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{sqlreceipt.SQLite.Schema(), "CREATE TABLE charges (customer_order TEXT, cents BIGINT)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	receipts, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	return &shop{db: db, receipts: receipts}
}

func (s *shop) charges(t *testing.T) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM charges").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
