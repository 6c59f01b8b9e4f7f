package sqlreceipt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// openBank makes a database with a table of transfers and the table of receipts.
func openBank(dir string) (*sql.DB, *sqlreceipt.Store, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bank.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	for _, schema := range []string{"CREATE TABLE transfers (amount INTEGER)", sqlreceipt.SQLite.Schema()} {
		if _, err := db.Exec(schema); err != nil {
			return nil, nil, err
		}
	}
	store, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
	return db, store, err
}

// The transfer and its receipt are committed together, so whoever comes after a
// crash finds the receipt and does not transfer again.
func ExampleInTx() {
	dir, err := os.MkdirTemp("", "bank")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, receipts, err := openBank(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	records, err := pebble.Open(pebble.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	keeper, err := inprocess.Open(inprocess.Config{Store: records}) // or client.New(conn), where a service runs
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer func() { _ = keeper.Close(ctx) }()

	key := oncekeeper.Key{Tenant: "acme", Operation: "transfer", ID: "order-7"}
	for range 2 {
		reference, err := client.Do(ctx, keeper.Client(), key, func(ctx context.Context, _ *client.Attempt) (string, error) {
			_, err := sqlreceipt.InTx(ctx, receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
				fmt.Println("transferring")
				_, err := tx.ExecContext(ctx, "INSERT INTO transfers VALUES (250)")
				return "tr_1", err
			})
			if err != nil {
				return "", err
			}
			return "", errors.New("the connection to the caller is lost")
		}, client.WithReceipts(receipts))
		fmt.Println(reference, err)
	}
	// Output:
	// transferring
	// tr_1 <nil>
	// tr_1 <nil>
}
