package pgxreceipt_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt/pgxreceipt"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestTheTransactionRefusesToBeEnded(t *testing.T) {
	db := open(t, pgtest.EmptyDatabase(t), pgxreceipt.Config{})
	ctx, _ := attempt(t.Context(), 1)
	var kept, nested pgx.Tx
	got, err := pgxreceipt.InTx(ctx, db.Store, func(ctx context.Context, tx pgx.Tx) (string, error) {
		if err := tx.Commit(ctx); err == nil {
			t.Error("it let itself be committed")
		}
		defer func() {
			if err := tx.Rollback(ctx); err == nil {
				t.Error("it let itself be rolled back")
			}
		}()
		kept = tx
		var err error
		if nested, err = tx.Begin(ctx); err != nil {
			return "", err
		}
		if _, err := charge(ctx, nested); err != nil {
			return "", err
		}
		if err := nested.Rollback(ctx); err != nil {
			return "", err
		}
		if nested, err = tx.Begin(ctx); err != nil {
			return "", err
		}
		if _, err := charge(ctx, nested); err != nil {
			return "", err
		}
		return "charged", nested.Commit(ctx)
	})
	if got != "charged" || err != nil {
		t.Errorf("it gave %q, %v", got, err)
	}
	if n := db.Effects(t, "charge"); n != 1 {
		t.Errorf("%d effects, want the nested transaction's that was committed", n)
	}
	for name, tx := range map[string]pgx.Tx{"it": kept, "a nested one": nested} {
		_, begin := tx.Begin(t.Context())
		_, exec := tx.Exec(t.Context(), "SELECT 1")
		_, query := tx.Query(t.Context(), "SELECT 1")
		_, prepare := tx.Prepare(t.Context(), "p", "SELECT 1")
		_, copied := tx.CopyFrom(t.Context(), pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows(nil))
		_, batch := tx.SendBatch(t.Context(), new(pgx.Batch)).Exec()
		for what, err := range map[string]error{
			"Begin": begin, "Exec": exec, "Query": query, "Prepare": prepare, "CopyFrom": copied, "SendBatch": batch,
			"QueryRow": tx.QueryRow(t.Context(), "SELECT 1").Scan(new(int)),
			"Commit":   tx.Commit(t.Context()), "Rollback": tx.Rollback(t.Context()),
		} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s of %s gave %v when it was over, want %v", what, name, err, pgx.ErrTxClosed)
			}
		}
	}
}

func TestAFunctionThatAlwaysCollidesIsGivenUp(t *testing.T) {
	db := open(t, pgtest.EmptyDatabase(t), pgxreceipt.Config{})
	for _, code := range []string{"40001", "40P01"} {
		ctx, _ := attempt(t.Context(), 1)
		runs := 0
		_, err := pgxreceipt.InTx(ctx, db.Store, func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'collided' USING ERRCODE = '"+code+"'; END $$")
			return "", err
		})
		fault := (*pgconn.PgError)(nil)
		if !errors.As(err, &fault) || fault.Code != code || !oncekeeper.IsRolledBack(err) || runs < 2 || runs > 20 {
			t.Errorf("%s: after %d runs it gave %v, want that error, marked, after some", code, runs, err)
		}
	}
}

func TestAnErrorOfTheFunctionsOwnTableIsNotAboutReceipts(t *testing.T) {
	db := open(t, pgtest.EmptyDatabase(t), pgxreceipt.Config{})
	ctx, _ := attempt(t.Context(), 1)
	_, err := pgxreceipt.InTx(ctx, db.Store, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, "SELECT FROM nowhere")
		return "", err
	})
	if fault := (*pgconn.PgError)(nil); !errors.As(err, &fault) || !strings.Contains(fault.Message, "nowhere") {
		t.Errorf("it gave %v, want the function's own error", err)
	}
}

func TestAStandbyIsNotLookedOn(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	db := open(t, address, pgxreceipt.Config{})
	for _, statement := range []string{
		"CREATE SCHEMA standby", "CREATE FUNCTION standby.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
	} {
		if _, err := db.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(t.Context(), address+"&search_path=standby,pg_catalog,public")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgxreceipt.New(pgxreceipt.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := store.Look(t.Context(), oncekeeper.Key{Tenant: "a", Operation: "b", ID: "c"}); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("Look gave %+v, %v, want an error that names the standby", r, err)
	}
}

func TestTheTableMayBeInASchemaOfItsOwn(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	db := open(t, address, pgxreceipt.Config{Schema: `Pay"ments`})
	for _, statement := range []string{`CREATE SCHEMA "Pay""ments"`, `ALTER TABLE oncekeeper_receipts SET SCHEMA "Pay""ments"`} {
		if _, err := db.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ctx, p := attempt(t.Context(), 1)
	if _, err := pgxreceipt.InTx(ctx, db.Store, charge); err != nil {
		t.Fatal(err)
	}
	if r, err := db.Look(t.Context(), p.Claim.Key); err != nil || !r.Applied() {
		t.Errorf("Look gave %+v, %v, want what was applied", r, err)
	}
}

func TestAPoolerInTransactionModeMayStandBetween(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	open(t, address, pgxreceipt.Config{})
	pool, err := pgxpool.New(t.Context(), pgtest.Pooler(t, address)+"&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgxreceipt.New(pgxreceipt.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		ctx, p := attempt(t.Context(), 1)
		if answer, err := pgxreceipt.InTx(ctx, store, charge); answer != "charged" || err != nil {
			t.Fatalf("it gave %q, %v", answer, err)
		}
		if r, err := store.Look(t.Context(), p.Claim.Key); err != nil || !r.Applied() {
			t.Errorf("Look gave %+v, %v, want what was applied", r, err)
		}
	}
}

func TestADatabaseThatIsNotThereLeavesNothing(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@/nowhere?host="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgxreceipt.New(pgxreceipt.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	ctx, p := attempt(t.Context(), 1)
	if _, err := pgxreceipt.InTx(ctx, store, charge); !oncekeeper.IsRolledBack(err) || p.Take() != nil {
		t.Errorf("InTx gave %v, want an error that is marked as rolled back, and an attempt that may try again", err)
	}
	if _, err := store.Look(t.Context(), p.Claim.Key); err == nil {
		t.Error("Look gave no error")
	}
}

func TestAConfigIsCheckedAtOnce(t *testing.T) {
	for name, c := range map[string]pgxreceipt.Config{
		"no pool":          {},
		"negative horizon": {Pool: new(pgxpool.Pool), Horizon: -1},
		"negative wait":    {Pool: new(pgxpool.Pool), Patience: -1},
	} {
		if store, err := pgxreceipt.New(c); err == nil {
			t.Errorf("%s: New gave %v", name, store)
		}
	}
}
