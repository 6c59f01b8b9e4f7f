package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// filled gives a bench with n completed records, whose table is analyzed.
func filled(t *testing.T, plan Plan, n int) *bench {
	t.Helper()
	b := newBench(t, plan)
	for _, settle := range []bool{false, true} {
		for at := 0; at < n; at += 200 {
			var cmds []lifecycle.Command
			for i := at; i < min(n, at+200); i++ {
				if id := fmt.Sprintf("%06d", i); settle {
					cmds = append(cmds, testComplete(id, 1893553445000000))
				} else {
					cmds = append(cmds, testBegin(id, id))
				}
			}
			for _, res := range b.Apply(context.Background(), cmds...) {
				if res.Refusal() != nil {
					t.Fatal(res.Refusal())
				}
			}
		}
	}
	b.exec(`ANALYZE oncekeeper_records`)
	return b
}

func TestEveryHotStatementGoesByTheRightIndex(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := filled(t, plan, 5000)
		conn := connect(t, b.cfg.DSN)
		rec, _ := lifecycle.Apply(nil, testBegin("new", "new"), 1893553445000000)
		// Of so small a table many more keys are found sooner by reading all of it.
		for _, n := range []int{1, 25} {
			var keys, begins, settles, writes, drops columnsOf
			for i := range n {
				id := fmt.Sprintf("%06d", 37*i)
				keys.addKey(testKey(id))
				if err := addBegin(&begins, testBegin(id, id)); err != nil {
					t.Fatal(err)
				}
				if err := addSettle(&settles, testComplete(id, 1)); err != nil {
					t.Fatal(err)
				}
				moved := *rec
				moved.Key = testKey(id)
				if err := addWrite(&writes, row{}, &moved, oncekeeper.Instant(rec.Token)); err != nil {
					t.Fatal(err)
				}
				drops.add("shop", "pay", id, int64(1), int64(1))
			}
			for name, c := range map[string]struct {
				sql  string
				args []any
				want string
			}{
				"read":       {b.sql.read.of(n), keys.args(), "oncekeeper_records_pkey"},
				"lock":       {b.sql.lock.of(n), keys.args(), "oncekeeper_records_pkey"},
				"begin":      {b.sql.begin.of(n), begins.args(), "oncekeeper_records_pkey"},
				"settle":     {b.sql.settle.of(n), settles.args(), "oncekeeper_records_pkey"},
				"write":      {b.sql.write.of(n), writes.args(), "oncekeeper_records_pkey"},
				"sweep drop": {b.sql.sweepDrop.of(n), drops.args(), "oncekeeper_records_pkey"},
				"sweep find": {b.sql.sweepFind, []any{int64(10), int64(0), "", "", "", "", "", int64(20), int64(256)}, "oncekeeper_records_sweep"},
				"age":        {b.sql.listReach, []any{int64(0), ageReach}, "oncekeeper_records_lease"},
			} {
				plan := explain(t, conn, c.sql, c.args)
				if !strings.Contains(plan, c.want) || strings.Contains(plan, "Seq Scan on oncekeeper_records") {
					t.Errorf("%s of %d keys does not go by %s:\n%s", name, n, c.want, plan)
				}
			}
		}
	})
}

func explain(t *testing.T, conn *pgx.Conn, sql string, args []any) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN "+sql, append([]any{pgx.QueryExecModeDescribeExec}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

func TestASettlementTouchesNoIndex(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := filled(t, plan, 2000)
		mustClose(t, b.Store) // a connection tells its counts when it ends
		conn := connect(t, b.cfg.DSN)
		var updates, hot int64
		for range 1000 {
			err := conn.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'oncekeeper_records'`).Scan(&updates, &hot)
			if err != nil {
				t.Fatal(err)
			}
			if updates == 2000 {
				break
			}
		}
		if updates != 2000 || hot < updates*95/100 {
			t.Errorf("%d of %d settlements were HOT updates", hot, updates)
		}
	})
}
