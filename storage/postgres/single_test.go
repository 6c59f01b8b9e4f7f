package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestEachKeyIsATransactionOfItsOwn(t *testing.T) {
	b := newBench(t, PlanSingle)
	var begins, settles []lifecycle.Command
	for i := range 3 * maxPipelined {
		begins = append(begins, testBegin(fmt.Sprint(i), "this"))
	}
	for _, res := range b.Apply(t.Context(), begins...) {
		if res.Err != nil || res.Verdict != lifecycle.Granted {
			t.Fatalf("begin: %v %v", res.Verdict, res.Err)
		}
		settles = append(settles, testComplete(res.Record.Key.ID, res.Record.Token))
	}
	wantTransactions(t, b, len(begins))
	for _, res := range b.Apply(t.Context(), settles...) {
		if res.Refusal() != nil {
			t.Fatalf("complete: %v", res.Refusal())
		}
	}
	wantTransactions(t, b, len(begins))
	if !b.lost.from.IsZero() {
		t.Error("answers were lost on the way")
	}
}

func wantTransactions(t *testing.T, b *bench, want int) {
	t.Helper()
	var n int
	if err := connect(t, b.cfg.DSN).QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text) FROM oncekeeper_records`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("%d rows were written by %d transactions", want, n)
	}
}

func TestAFaultOfOneKeyTouchesNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		trigger string
		code    string // of the fault; none for a warning
	}{
		"in the statement":                  {`CREATE TRIGGER bad BEFORE INSERT ON oncekeeper_records`, "22000"},
		"in the statement, and it may pass": {`CREATE TRIGGER bad BEFORE INSERT ON oncekeeper_records`, serializationFailure},
		"in the commit":                     {`CREATE CONSTRAINT TRIGGER bad AFTER INSERT ON oncekeeper_records DEFERRABLE INITIALLY DEFERRED`, "23000"},
		"of a node out of reach":            {`CREATE TRIGGER bad BEFORE INSERT ON oncekeeper_records`, nodeOutOfReach},
		"that is a warning":                 {`CREATE TRIGGER bad BEFORE INSERT ON oncekeeper_records`, ""},
		"of a node out of reach, in the commit": {
			`CREATE CONSTRAINT TRIGGER bad AFTER INSERT ON oncekeeper_records DEFERRABLE INITIALLY DEFERRED`, nodeOutOfReach,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, PlanSingle)
			raise := `RAISE WARNING 'planted'`
			if c.code != "" {
				raise = `RAISE EXCEPTION 'planted' USING ERRCODE = '` + c.code + `'`
			}
			b.exec(`CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 'bad' THEN ` + raise + `; END IF; RETURN NEW; END $$`)
			b.exec(c.trigger + ` FOR EACH ROW EXECUTE FUNCTION bad()`)
			var cmds []lifecycle.Command
			for i := range 10 {
				cmds = append(cmds, testBegin(fmt.Sprint(i), "this"))
			}
			cmds[4] = testBegin("bad", "this")
			for i, res := range b.Apply(t.Context(), cmds...) {
				if i == 4 && !errors.Is(res.Err, oncekeeper.ErrStoreUnavailable) {
					t.Errorf("the bad one: %v %v", res.Verdict, res.Err)
				}
				if i != 4 && (res.Err != nil || res.Verdict != lifecycle.Granted) {
					t.Errorf("%s: %v %v", cmds[i].Target().ID, res.Verdict, res.Err)
				}
			}
			b.exec(`DROP TRIGGER bad ON oncekeeper_records`)
			if got := b.apply(testBegin("bad", "this")); got.Err != nil || got.Verdict != lifecycle.Granted || got.Record.Attempt != 1 {
				t.Errorf("once it is mended: %v %v", got.Verdict, got.Err)
			}
		})
	}
}

func TestAKeyThatAnotherHoldsKeepsNoOtherWaiting(t *testing.T) {
	b := newBench(t, PlanSingle)
	tx := b.inserted(t, testBegin("held", "other"))
	got := b.during(t, testBegin("held", "this"), func() {
		token := b.granted(t, testBegin("free", "this")).Token
		if res := b.apply(testComplete("free", token)); res.Refusal() != nil {
			t.Error(res.Refusal())
		}
		if err := tx.Commit(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if got.Err != nil || got.Verdict != lifecycle.InProgress {
		t.Errorf("got %v %v, want in progress", got.Verdict, got.Err)
	}
}

func TestMoreIsSweptAtOnceThanAPipelineHolds(t *testing.T) {
	b := newBench(t, PlanSingle)
	var begins, settles []lifecycle.Command
	for i := range sweepBatch + 50 {
		begins = append(begins, testBegin(fmt.Sprint(i), "this"))
	}
	for i, res := range b.Apply(t.Context(), begins...) {
		if res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
		if i%2 == 0 {
			settles = append(settles, testComplete(res.Record.Key.ID, res.Record.Token))
		}
	}
	for _, res := range b.Apply(t.Context(), settles...) {
		if res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
	}
	b.advance(2 * testBegin("", "").Grant.Retention)
	swept, err := b.Sweep(t.Context(), storage.SweepQuery{Limit: 1000})
	if err != nil || swept.More || swept.Records != int64(len(settles)) {
		t.Errorf("swept %+v, %v; want %d", swept, err, len(settles))
	}
}

func TestCommittersShareWhatWaits(t *testing.T) {
	var q queue
	q.init(clock.System.Monotonic, 4, true)
	for range 42 {
		if _, err := q.push(&task{cmds: make([]lifecycle.Command, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{11, 8, 6, 5} {
		if got := len(q.take()); got != want {
			t.Errorf("committer %d took %d, want %d", i, got, want)
		}
	}
	for range 1000 {
		if _, err := q.push(&task{cmds: make([]lifecycle.Command, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(q.take()); got != maxPipelined {
		t.Errorf("a committer took %d, want %d", got, maxPipelined)
	}
}

func TestTheQueueIsBoundedInTime(t *testing.T) {
	hands := clock.NewManual(time.Unix(1_800_000_000, 0))
	var q queue
	q.init(hands.Monotonic, 0, false)
	push := func(want error) {
		t.Helper()
		if _, err := q.push(&task{cmds: make([]lifecycle.Command, 1)}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	push(nil)
	hands.Advance(maxQueuedFor)
	push(nil)
	hands.Advance(time.Microsecond)
	push(oncekeeper.ErrOverloaded) // the first has waited for too long
	if tasks := q.take(); len(tasks) != 2 {
		t.Errorf("%d tasks were taken, want both", len(tasks))
	}
	push(nil)
}

// Nodes have clocks of their own, and Citus refuses a function that is not the same
// throughout a statement; of CASE it loses the operand, where it computes a clock
// beside it.
func TestNoStatementThatWritesReadsAClockThatMoves(t *testing.T) {
	sql := newStatements(databaseClock, PlanSingle, false)
	unfilled := regexp.MustCompile(`\$[a-z]|\bi\.|c\.now`)
	operand := regexp.MustCompile(`CASE [^W]`)
	for name, text := range map[string]string{
		"begin": sql.begin.one, "settle": sql.settle.one, "place": sql.place.one, "write": sql.write.one, "remove": sql.remove.one,
		"lock": sql.lock.one, "read": sql.read.one, "sizes": sql.sizes.one, "past": sql.sweepPast.one, "drop": sql.sweepDrop.one,
	} {
		if strings.Contains(text, "clock_timestamp") || unfilled.MatchString(text) || operand.MatchString(text) || !strings.Contains(text, "$3::text") {
			t.Errorf("%s is\n%s", name, text)
		}
	}
}

func TestThePlanIsTheOneThatFitsTheServer(t *testing.T) {
	dsn := pgtest.Database(t)
	h := handsOn(t, dsn)
	h.exec(`CREATE SCHEMA pretended`)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", "pretended,pg_catalog,public")
	u.RawQuery = q.Encode()
	for _, c := range []struct {
		pretend string
		asked   Plan
		want    Plan
		why     string
	}{
		{``, PlanAuto, PlanMany, "one node"},
		{``, PlanSingle, PlanSingle, "asked"},
		{`CREATE TABLE pretended.pg_dist_partition (logicalrelid regclass, partmethod "char")`, PlanAuto, PlanMany, "--distribute"},
		{`INSERT INTO pretended.pg_dist_partition VALUES ('oncekeeper_records', 'n')`, PlanAuto, PlanMany, "--distribute"},
		{`UPDATE pretended.pg_dist_partition SET partmethod = 'h'`, PlanAuto, PlanSingle, "Citus"},
		{``, PlanMany, PlanMany, "asked"},
		{`CREATE FUNCTION pretended.version() RETURNS text LANGUAGE sql AS $$SELECT 'CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu)'$$`, PlanAuto, PlanSingle, "CockroachDB"},
		{`CREATE OR REPLACE FUNCTION pretended.version() RETURNS text LANGUAGE sql AS $$SELECT 'PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64'$$`, PlanAuto, PlanSingle, "YugabyteDB"},
	} {
		if c.pretend != "" {
			h.exec(c.pretend)
		}
		s := mustOpen(t, Config{DSN: u.String(), Plan: c.asked})
		if plan, why := s.Plan(); plan != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: asked for %q, it goes by %s because %s; want %s because of %s", c.pretend, c.asked, plan, why, c.want, c.why)
		}
	}
	if _, err := Open(t.Context(), Config{DSN: dsn, Plan: "double"}); err == nil || !strings.Contains(err.Error(), "single") {
		t.Errorf("a plan that is none: %v", err)
	}
}

func TestAStatementIsPreparedAnewOnceTheTableChanged(t *testing.T) {
	b := newBench(t, PlanSingle)
	var columns columnsOf
	if err := addSettle(&columns, testComplete("1", 1)); err != nil {
		t.Fatal(err)
	}
	var codes []string
	err := b.with(t.Context(), tripFast, func(ctx context.Context, conn *pgxpool.Conn) error {
		for i := range 3 {
			st := &statement{sql: b.sql.settle.one, args: columns.args(), scan: func(pgx.Rows) error { return nil }}
			if err := pipelined(ctx, conn.Conn(), []*statement{st}); err != nil {
				return err
			}
			code := ""
			if fault := (*pgconn.PgError)(nil); errors.As(st.err, &fault) {
				code = fault.Code
			}
			codes = append(codes, code)
			if i == 0 {
				b.exec(`ALTER TABLE oncekeeper_records ALTER COLUMN state TYPE integer`)
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(codes, []string{"", featureNotSupported, ""}) {
		t.Errorf("the statement gave %q (%v), want one fault, behind the change", codes, err)
	}
}
