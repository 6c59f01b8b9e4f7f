package receipt_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// A charge has its idempotency key in a column of its own, so it is its own
// receipt, and nothing is kept twice. Floors have no business row to be in: they
// stay in the table of receipts.
const chargesSchema = `CREATE TABLE charges (
	id     INTEGER PRIMARY KEY,
	amount INTEGER NOT NULL,
	tenant TEXT NOT NULL,
	key    TEXT NOT NULL,
	token  INTEGER NOT NULL,
	made   INTEGER NOT NULL,
	UNIQUE (tenant, key)
)`

type charge struct{ ID int64 }

// charges is a receipt.Store whose applied half is the table of charges.
type charges struct {
	receipt.Store // of floors
	db            *sql.DB
}

// Look builds what was answered from the charge.
func (s charges) Look(ctx context.Context, key oncekeeper.Key) (*receipt.Receipt, error) {
	var id, token, made int64
	err := s.db.QueryRowContext(ctx, "SELECT id, token, made FROM charges WHERE tenant = ? AND key = ?", key.Tenant, key.ID).Scan(&id, &token, &made)
	if errors.Is(err, sql.ErrNoRows) {
		return s.Store.Look(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(charge{id})
	return &receipt.Receipt{
		Key: key, Token: token, Written: time.UnixMicro(made),
		Response: &oncekeeper.Response{Body: body, ContentType: client.ContentTypeJSON},
	}, err
}

// Close raises the floor first, which waits for a transaction that has taken it.
// After that no charge can come from below it, and one that came is seen.
func (s charges) Close(ctx context.Context, c receipt.Claim, floor int64) (*receipt.Receipt, error) {
	closed, err := s.Store.Close(ctx, c, floor)
	if err != nil {
		return nil, err
	}
	if made, err := s.Look(ctx, c.Key); err != nil || made.Applied() {
		return made, err
	}
	return closed, nil
}

// takeFloor is what InTx does otherwise: it comes first in the transaction, holds
// the key until that ends, and refuses an attempt that a floor is above.
const takeFloor = `INSERT INTO oncekeeper_receipts (tenant, operation, id, token, floor, written, in_doubt, fingerprint_scheme, fingerprint)
VALUES (?, ?, ?, ?, 0, unixepoch() * 1000000, FALSE, '', x'')
ON CONFLICT DO UPDATE SET token = excluded.token, written = excluded.written WHERE floor <= excluded.token`

func (s charges) make(ctx context.Context, key oncekeeper.Key, token, amount int64) (charge, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return charge{}, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	taken, err := tx.ExecContext(ctx, takeFloor, key.Tenant, key.Operation, key.ID, token)
	if err != nil {
		return charge{}, err
	}
	if n, err := taken.RowsAffected(); err != nil || n == 0 {
		return charge{}, errors.Join(oncekeeper.ErrFenced, err)
	}
	res, err := tx.ExecContext(ctx, "INSERT INTO charges (amount, tenant, key, token, made) VALUES (?, ?, ?, ?, unixepoch() * 1000000)",
		amount, key.Tenant, key.ID, token)
	if err != nil {
		return charge{}, err // a UNIQUE constraint: it was made before
	}
	id, err := res.LastInsertId()
	if err != nil {
		return charge{}, err
	}
	return charge{id}, tx.Commit()
}

// The first attempt makes its charge and then loses the answer. The second one finds
// the charge and does not run.
func ExampleStore_uniqueColumn() {
	err := func() error {
		dir, err := os.MkdirTemp("", "charges")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bank.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		for _, schema := range []string{chargesSchema, sqlreceipt.SQLite.Schema()} {
			if _, err := db.Exec(schema); err != nil {
				return err
			}
		}
		floors, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: sqlreceipt.SQLite})
		if err != nil {
			return err
		}
		bank := charges{Store: floors, db: db}

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		keeper, err := openKeeper()
		if err != nil {
			return err
		}
		defer func() { _ = keeper.Close(ctx) }()

		key := oncekeeper.Key{Tenant: "acme", Operation: "charge", ID: "order-7"}
		for range 3 {
			made, err := client.Do(ctx, keeper.Client(), key, func(ctx context.Context, a *client.Attempt) (charge, error) {
				fmt.Println("charging")
				if _, err := bank.make(ctx, key, a.Token(), 250); err != nil {
					return charge{}, err
				}
				return charge{}, errors.New("the answer was lost")
			}, client.WithReceipts(bank))
			fmt.Println(made, err)
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM charges").Scan(&n); err != nil {
			return err
		}
		fmt.Println("charges:", n)
		return nil
	}()
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// charging
	// {0} the answer was lost
	// {1} <nil>
	// {1} <nil>
	// charges: 1
}

func openKeeper() (*inprocess.Keeper, error) {
	store, err := pebble.Open(pebble.Config{})
	if err != nil {
		return nil, err
	}
	return inprocess.Open(inprocess.Config{Store: store})
}
