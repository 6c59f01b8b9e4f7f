package migrations_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/oncekeeper/oncekeeper/migrations"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func open(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestADatabaseIsMigratedOnceAndSaysHowFarItIs(t *testing.T) {
	db := open(t, pgtest.EmptyDatabase(t))
	if err := migrations.Check(t.Context(), db); !errors.Is(err, migrations.ErrOldSchema) {
		t.Errorf("an empty database: got %v, want ErrOldSchema", err)
	}
	if n := tables(t, db); n != 0 {
		t.Errorf("a look made %d tables", n)
	}
	before, err := migrations.Status(t.Context(), db)
	if err != nil || len(before) == 0 || !before[0].Applied.IsZero() {
		t.Errorf("status before: %+v, %v", before, err)
	}
	taken, err := migrations.Up(t.Context(), db)
	if err != nil || len(taken) != len(before) {
		t.Fatalf("up took %+v, %v", taken, err)
	}
	if again, err := migrations.Up(t.Context(), db); err != nil || len(again) != 0 {
		t.Errorf("up again took %+v, %v", again, err)
	}
	after, err := migrations.Status(t.Context(), db)
	if err != nil || after[len(after)-1].Applied.IsZero() || after[len(after)-1].Version != migrations.Newest() {
		t.Errorf("status after: %+v, %v", after, err)
	}
	if err := migrations.Check(t.Context(), db); err != nil {
		t.Errorf("a migrated database: %v", err)
	}
}

func TestASchemaThatANewerVersionMadeIsServedUnlessAStepBreaksThisOne(t *testing.T) {
	db := open(t, pgtest.Database(t))
	exec := func(sql string, step int64) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), sql, step); err != nil {
			t.Fatal(err)
		}
	}
	const taken, breaks = `INSERT INTO oncekeeper_schema (version_id, is_applied) VALUES ($1, true)`, `INSERT INTO oncekeeper_breaking_steps VALUES ($1)`
	check := func(about string, want error) {
		t.Helper()
		if err := migrations.Check(t.Context(), db); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", about, err, want)
		}
		if took, err := migrations.Up(t.Context(), db); err != nil || len(took) != 0 {
			t.Errorf("%s: up took %v, %v", about, took, err)
		}
	}
	newest := migrations.Newest()
	exec(breaks, newest)
	check("a breaking step that is known", nil)
	exec(taken, newest+1)
	check("a step more", nil)
	exec(taken, newest+2)
	exec(breaks, newest+2)
	check("a breaking step more", migrations.ErrNewSchema)
	exec(taken, newest+3)
	check("a step behind it", migrations.ErrNewSchema)
}

func TestServersThatMigrateAtOnceTakeEachStepOnce(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	var all sync.WaitGroup
	counts := make([]int, 5)
	for i := range counts {
		db := open(t, address)
		all.Go(func() {
			taken, err := migrations.Up(t.Context(), db)
			if err != nil {
				t.Errorf("one of %d: %v", len(counts), err)
			}
			counts[i] = len(taken)
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if steps, err := migrations.Status(t.Context(), open(t, address)); err != nil || sum != len(steps) {
		t.Errorf("%d steps were taken, want %d (%v)", sum, len(steps), err)
	}
}

func TestADatabaseThatCannotHoldEveryKeyIsRefused(t *testing.T) {
	db := open(t, pgtest.EmptyDatabase(t))
	if _, err := db.ExecContext(t.Context(), `CREATE DATABASE oncekeeper_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = db.Exec(`DROP DATABASE oncekeeper_latin WITH (FORCE)`) })
	latin := open(t, pgtest.Beside(pgtest.EmptyDatabase(t), "oncekeeper_latin"))
	if _, err := migrations.Up(t.Context(), latin); !errors.Is(err, migrations.ErrNotUTF8) {
		t.Errorf("got %v, want ErrNotUTF8", err)
	}
}

func tables(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
