package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite" // the driver "sqlite"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

const schema = `
CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL);
CREATE TABLE debits (
	id         INTEGER PRIMARY KEY,
	request_id TEXT NOT NULL, -- not unique: each way shows what it does by itself
	account    TEXT NOT NULL REFERENCES accounts (id),
	amount     INTEGER NOT NULL
);
CREATE INDEX debits_by_request ON debits (request_id);
CREATE TABLE processed (request_id TEXT PRIMARY KEY); -- of recordfirst.go alone
`

// bank is the business database. SQLite has one writer: a transaction has the
// whole file from its first statement on, so whatever goes wrong here goes wrong
// between transactions. The file is gone at the end, so nothing waits for the disk.
type bank struct {
	db      *sql.DB
	trouble *trouble
}

func openBank(ctx context.Context, path string, trouble *trouble) (*bank, error) {
	settings := url.Values{
		"_pragma": {"busy_timeout(60000)", "journal_mode(WAL)", "synchronous(OFF)"},
		"_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", "file:"+path+"?"+settings.Encode())
	if err != nil {
		return nil, fmt.Errorf("opening the bank: %w", err)
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("making the bank's tables: %w", err), db.Close())
	}
	return &bank{db: db, trouble: trouble}, nil
}

func (b *bank) openAccount(ctx context.Context, account string, balance int64) error {
	_, err := b.db.ExecContext(ctx, `INSERT INTO accounts (id, balance) VALUES (?, ?)`, account, balance)
	return err
}

// charge makes the debit: its row and the new balance, in one transaction. Its
// error is errRolledBack where nothing of it is there; another leaves open whether
// it is.
func (b *bank) charge(ctx context.Context, r *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	var row, balance int64
	err := b.inTx(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE accounts SET balance = balance - ? WHERE id = ? RETURNING balance`,
			r.GetAmount(), r.GetAccount()).Scan(&balance)
		if errors.Is(err, sql.ErrNoRows) {
			return status.Error(codes.NotFound, "there is no such account")
		}
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `INSERT INTO debits (request_id, account, amount) VALUES (?, ?, ?) RETURNING id`,
			r.GetRequestId(), r.GetAccount(), r.GetAmount()).Scan(&row)
		if err != nil {
			return err
		}
		return b.trouble.beforeCommit(r.GetRequestId())
	})
	if err == nil {
		err = b.trouble.afterCommit(r.GetRequestId())
	}
	if err != nil {
		return nil, err
	}
	return debited(row, balance), nil
}

// errRolledBack: the transaction is known to have left nothing.
var errRolledBack = errors.New("rolled back")

// rolledBack is errRolledBack that tells no other status than its cause's. To
// join the two would leave the code open: none of what is joined stands for all.
type rolledBack struct{ cause error }

func (r rolledBack) Error() string        { return errRolledBack.Error() + ": " + r.cause.Error() }
func (r rolledBack) Unwrap() error        { return r.cause }
func (r rolledBack) Is(target error) bool { return target == errRolledBack }

func (b *bank) inTx(ctx context.Context, change func(*sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return rolledBack{fmt.Errorf("it was not begun: %w", err)}
	}
	if err := change(tx); err != nil {
		if undo := tx.Rollback(); undo != nil {
			return errors.Join(err, undo)
		}
		return rolledBack{err}
	}
	return tx.Commit()
}

// find looks for the debit that a request made.
func (b *bank) find(ctx context.Context, requestID string) (made *paymentsv1.DebitResponse, found bool, err error) {
	var row, balance int64
	err = b.db.QueryRowContext(ctx,
		`SELECT d.id, a.balance FROM debits d JOIN accounts a ON a.id = d.account WHERE d.request_id = ? ORDER BY d.id`,
		requestID).Scan(&row, &balance)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return debited(row, balance), err == nil, err
}

// record notes a request as processed, and says whether it was the first to.
func (b *bank) record(ctx context.Context, requestID string) (first bool, err error) {
	result, err := b.db.ExecContext(ctx, `INSERT INTO processed (request_id) VALUES (?) ON CONFLICT DO NOTHING`, requestID)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

func (b *bank) balance(ctx context.Context, account string) (balance int64, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = ?`, account).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, status.Error(codes.NotFound, "there is no such account")
	}
	return balance, err
}

// rows counts the rows of each request.
func (b *bank) rows(ctx context.Context) (map[string]int, error) {
	found, err := b.db.QueryContext(ctx, `SELECT request_id, count(*) FROM debits GROUP BY request_id`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	counts := map[string]int{}
	for found.Next() {
		var id string
		var n int
		if err := found.Scan(&id, &n); err != nil {
			return nil, err
		}
		counts[id] = n
	}
	return counts, found.Err()
}

func debited(row, balance int64) *paymentsv1.DebitResponse {
	return &paymentsv1.DebitResponse{Name: fmt.Sprintf("debits/%d", row), Balance: balance}
}
