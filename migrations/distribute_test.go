package migrations_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/oncekeeper/oncekeeper/migrations"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// pretended is of Citus what is called here: it refuses to distribute a table twice,
// as Citus does.
const pretended = `
CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY, partmethod "char");
CREATE FUNCTION create_distributed_table(name text, by text) RETURNS void LANGUAGE sql AS
	$$ INSERT INTO pg_dist_partition SELECT name::regclass, 'h' WHERE by = 'id' $$;
CREATE TABLE truncated (name regclass);
CREATE FUNCTION truncate_local_data_after_distributing_table(name regclass) RETURNS void LANGUAGE sql AS
	$$ INSERT INTO truncated VALUES (name) $$`

func TestRecordsAreDistributedOnceHoweverManyTry(t *testing.T) {
	address := pgtest.Database(t)
	db := open(t, address)
	if _, err := db.ExecContext(t.Context(), pretended); err != nil {
		t.Fatal(err)
	}
	if at, err := migrations.Spread(t.Context(), db); err != nil || at != migrations.OneNode {
		t.Errorf("before: %v, %v", at, err)
	}
	var all sync.WaitGroup
	did := make([]bool, 4)
	for i := range did {
		db := open(t, address)
		all.Go(func() {
			var err error
			if did[i], err = migrations.Distribute(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	count := 0
	for _, d := range did {
		if d {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d say that they distributed the records, want one", count)
	}
	if at, err := migrations.Spread(t.Context(), db); err != nil || at != migrations.Distributed {
		t.Errorf("after: %v, %v", at, err)
	}
	if _, err := migrations.Up(t.Context(), db); err != nil {
		t.Errorf("up on a distributed schema: %v", err)
	}
}

func TestRecordsAreNotDistributedWithoutCitus(t *testing.T) {
	db := open(t, pgtest.Database(t))
	if at, err := migrations.Spread(t.Context(), db); err != nil || at != migrations.NoCitus {
		t.Errorf("got %v, %v, want NoCitus", at, err)
	}
	if done, err := migrations.Distribute(t.Context(), db); done || !errors.Is(err, migrations.ErrNoCitus) {
		t.Errorf("got %v, %v, want ErrNoCitus", done, err)
	}
}
