package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/receipttest"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// business is a caller's own database, made with what the command prints.
type business struct {
	address string
	db      *sql.DB
	store   *sqlreceipt.Store
}

// onBothDatabases runs a test of commands against one of each dialect, which they
// find by the environment.
func onBothDatabases(t *testing.T, test func(t *testing.T, b *business)) {
	for dialect := range dialects {
		t.Run(dialect, func(t *testing.T) { test(t, newBusiness(t, dialect)) })
	}
}

func newBusiness(t *testing.T, dialect string) *business {
	t.Helper()
	b, driver, address := &business{}, "pgx", ""
	if dialect == "sqlite" {
		file := filepath.Join(t.TempDir(), "my app?.db")
		b.address, driver, address = "sqlite:"+file, "sqlite", "file:"+strings.ReplaceAll(file, "?", "%3f")
	} else {
		b.address = pgtest.EmptyDatabase(t)
		address = b.address
	}
	t.Setenv("ONCEKEEPER_RECEIPTS", b.address)
	var err error
	if b.db, err = sql.Open(driver, address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.db.Close() })
	code, schema, stderr := command(t, "receipt", "schema", "--dialect", dialect)
	if code != 0 {
		t.Fatal(stderr)
	}
	if _, err := b.db.Exec(schema); err != nil {
		t.Fatalf("the schema that is printed does not run: %v", err)
	}
	if b.store, err = sqlreceipt.New(sqlreceipt.Config{DB: b.db, Dialect: dialects[dialect]}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *business) apply(t *testing.T, id string) {
	t.Helper()
	p := &receipt.Permit{Codec: receipttest.Text{}, Claim: receipt.Claim{
		Key: oncekeeper.Key{Tenant: "demo", Operation: "greet", ID: id}, Token: 77, FingerprintScheme: "raw", Fingerprint: []byte{0xab},
	}}
	_, err := sqlreceipt.InTx(receipt.WithPermit(t.Context(), p), b.store, func(context.Context, *sql.Tx) (string, error) { return "hello", nil })
	if err != nil {
		t.Fatal(err)
	}
}

func (b *business) has(t *testing.T, id string) bool {
	t.Helper()
	r, err := b.store.Look(t.Context(), oncekeeper.Key{Tenant: "demo", Operation: "greet", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return r != nil
}

func TestReceiptDeleteShowsAndAsksAndOnlyAYesForgets(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, b *business) {
		b.apply(t, "1")
		b.apply(t, "2")
		forget := []string{"receipt", "delete", "demo", "greet", "1"}
		if code, _, stderr := asked(t, "n\n", forget...); code != exitFailed || !strings.Contains(stderr, "nothing was changed") || !b.has(t, "1") {
			t.Errorf("after a no it exits with %d: %s", code, stderr)
		}
		if code, _, stderr := command(t, forget...); code != exitUsage || !strings.Contains(stderr, "--yes") {
			t.Errorf("with nobody to ask it exits with %d: %s", code, stderr)
		}
		code, stdout, stderr := asked(t, "y\n", forget...)
		if code != 0 || !strings.Contains(stdout, "deleted") || b.has(t, "1") {
			t.Errorf("after a yes it exits with %d: %s%s", code, stdout, stderr)
		}
		for _, want := range []string{"APPLIED", "raw ab", "77", "5 bytes text/plain: hello"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("it does not show %q of the receipt:\n%s", want, stderr)
			}
		}
		if !b.has(t, "2") {
			t.Error("it deleted another key's receipt")
		}
	})
}

func TestReceiptDeleteForgetsAFloorAndWhatIsInDoubt(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, b *business) {
		c := receipt.Claim{Key: oncekeeper.Key{Tenant: "demo", Operation: "greet", ID: "1"}}
		if _, err := b.store.Close(t.Context(), c, 9); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := command(t, "receipt", "delete", "demo", "greet", "1", "--yes"); code != 0 || !strings.Contains(stderr, "CLOSED") {
			t.Errorf("of a floor it exits with %d: %s", code, stderr)
		}
		if b.has(t, "1") {
			t.Error("the floor is still there")
		}
		p := &receipt.Permit{Codec: receipttest.Text{}, Claim: c}
		_, _ = sqlreceipt.InTx(receipt.WithPermit(t.Context(), p), b.store, func(_ context.Context, tx *sql.Tx) (string, error) { return "", tx.Commit() })
		if _, err := b.store.Look(t.Context(), c.Key); !errors.Is(err, receipt.ErrInDoubt) {
			t.Fatalf("Look gives %v, want %v", err, receipt.ErrInDoubt)
		}
		if code, _, stderr := command(t, "receipt", "delete", "demo", "greet", "1", "--yes"); code != 0 || !strings.Contains(stderr, "in doubt") {
			t.Errorf("of what is in doubt it exits with %d: %s", code, stderr)
		}
		if b.has(t, "1") {
			t.Error("what was in doubt is still there")
		}
	})
}

func TestReceiptDeleteRefusesAndSaysWhatToDo(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, b *business) {
		if _, err := b.db.Exec("DROP TABLE oncekeeper_receipts"); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := command(t, "receipt", "delete", "demo", "greet", "1", "--yes")
		if code != exitFailed || !strings.Contains(stderr, "oncekeeper receipt schema") {
			t.Errorf("without the table it exits with %d: %s", code, stderr)
		}
		if _, err := b.db.Exec(dialects[map[bool]string{true: "sqlite", false: "postgres"}[strings.HasPrefix(b.address, "sqlite:")]].Schema()); err != nil {
			t.Fatal(err)
		}
		code, _, stderr = command(t, "receipt", "delete", "demo", "greet", "1", "--yes")
		if code != exitNotFound || !strings.Contains(stderr, `no receipt of "1"`) {
			t.Errorf("without the receipt it exits with %d: %s", code, stderr)
		}
	})
	missing := filepath.Join(t.TempDir(), "missing.db")
	for _, c := range []struct {
		want     string
		exit     int
		database string
	}{
		{"give postgres://", exitUsage, "mysql://u:secret@h/d"},
		{"give postgres://", exitUsage, "sqlite:"},
		{"give postgres://", exitUsage, "secret"},
		{"cannot be read", exitFailed, "postgres://u:secret@h:port/d"},
		{"unable to open database file", exitFailed, "sqlite:" + missing},
		{"connect", exitFailed, "postgres://u:secret@/d?host=" + t.TempDir()},
	} {
		code, _, stderr := command(t, "receipt", "delete", "demo", "greet", "1", "--yes", "--database", c.database)
		if code != c.exit || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("of %s it exits with %d and says %q; want %d, %q, and no secret", c.database, code, stderr, c.exit, c.want)
		}
	}
	if code, _, stderr := command(t, "receipt", "schema", "--dialect", "oracle"); code != exitUsage {
		t.Errorf("of a dialect that is unknown it exits with %d: %s", code, stderr)
	}
	if code, _, stderr := command(t, "receipt", "delete", "demo", "greet", "1", "--yes"); code != exitUsage || !strings.Contains(stderr, "--database") {
		t.Errorf("without a database it exits with %d: %s", code, stderr)
	}
}
