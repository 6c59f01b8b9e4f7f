package sqlreceipt_test

import (
	"cmp"
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper/client/receipt/receipttest"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestPostgres(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	levels := map[string]sql.IsolationLevel{
		"read committed": sql.LevelReadCommitted, "repeatable read": sql.LevelRepeatableRead, "serializable": sql.LevelSerializable,
	}
	receipttest.Run(t, receipttest.Backend{
		Isolations: []string{"read committed", "repeatable read", "serializable"},
		Open: func(t *testing.T, isolation string) receipttest.Database {
			db := openDB(t, "pgx", address)
			return open(t, db, sqlreceipt.Config{Dialect: sqlreceipt.Postgres, Isolation: levels[isolation]})
		},
		OpenCut: func(t *testing.T) (receipttest.Database, receipttest.Cutter) {
			proxy := receipttest.NewProxy(t, address)
			return open(t, openDB(t, "pgx", proxy.Address), sqlreceipt.Config{Dialect: sqlreceipt.Postgres}), proxy
		},
	})
}

func TestSQLite(t *testing.T) {
	receipttest.Run(t, receipttest.Backend{
		Isolations: []string{"immediate", "deferred"},
		Open: func(t *testing.T, isolation string) receipttest.Database {
			db, watched := openWatched(t, sqliteAddress(t, cmp.Or(isolation, "immediate")))
			d := open(t, db, sqlreceipt.Config{Dialect: sqlreceipt.SQLite})
			d.watched = watched
			return d
		},
		OpenCut: func(t *testing.T) (receipttest.Database, receipttest.Cutter) {
			db, watched := openWatched(t, sqliteAddress(t, "immediate"))
			return open(t, db, sqlreceipt.Config{Dialect: sqlreceipt.SQLite}), watched
		},
	})
}

func sqliteAddress(t *testing.T, lock string) string {
	return "file:" + filepath.Join(t.TempDir(), "app.db") + "?_pragma=busy_timeout(10)&_pragma=journal_mode(WAL)&_txlock=" + lock
}

func openDB(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

type database struct {
	*sqlreceipt.Store
	db      *sql.DB
	dialect sqlreceipt.Dialect
	watched *watched // SQLite's
}

// open makes the tables anew, and a store on them.
func open(t *testing.T, db *sql.DB, c sqlreceipt.Config) *database {
	t.Helper()
	for _, statement := range []string{"DROP TABLE IF EXISTS oncekeeper_receipts", "DROP TABLE IF EXISTS effects", c.Dialect.Schema(), "CREATE TABLE effects (name text)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	c.DB = db
	store, err := sqlreceipt.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &database{Store: store, db: db, dialect: c.Dialect}
}

func (d *database) InTx(ctx context.Context, fn func(context.Context, receipttest.Tx) (string, error)) (string, error) {
	return sqlreceipt.InTx(ctx, d.Store, func(ctx context.Context, tx *sql.Tx) (string, error) { return fn(ctx, hand{tx}) })
}

func (d *database) Effects(t *testing.T, name string) int {
	t.Helper()
	n, err := count(t.Context(), d.db, name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (d *database) AwaitWaiting(t *testing.T, n int) {
	t.Helper()
	if d.OneWriter() {
		d.watched.awaitBusy(t, n)
		return
	}
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for until := time.Now().Add(time.Minute); ; {
		var now int
		if err := d.db.QueryRow(waiting).Scan(&now); err != nil {
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

func (d *database) OneWriter() bool { return d.dialect == sqlreceipt.SQLite }

func (d *database) DropTable(t *testing.T) {
	t.Helper()
	if _, err := d.db.Exec("DROP TABLE oncekeeper_receipts"); err != nil {
		t.Fatal(err)
	}
}

func count(ctx context.Context, on interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, name string) (n int, err error) {
	err = on.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = $1", name).Scan(&n)
	return n, err
}

// hand is a function's grip on its transaction.
type hand struct{ tx *sql.Tx }

func (h hand) Effect(ctx context.Context, name string) error {
	_, err := h.tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1)", name)
	return err
}

func (h hand) Count(ctx context.Context, name string) (int, error) { return count(ctx, h.tx, name) }

func (h hand) Fail(ctx context.Context) error {
	_, err := h.tx.ExecContext(ctx, "SELECT nothing FROM nowhere")
	return err
}

func (h hand) End(commit bool) error {
	if commit {
		return h.tx.Commit()
	}
	return h.tx.Rollback()
}
