package postgres

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

func TestTheSchemaChangesUnderLoadAndNoCallFails(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		dsn := pgtest.Database(t)
		s := mustOpen(t, Config{DSN: dsn, Plan: plan})
		l, stop := callersOf(t, s, 8)
		l.progress()
		admin := connect(t, dsn)
		for _, step := range []string{
			`ALTER TABLE oncekeeper_records ADD COLUMN note text`,
			`ALTER TABLE oncekeeper_records ADD COLUMN kind smallint NOT NULL DEFAULT 7`,
			`CREATE INDEX CONCURRENTLY more ON oncekeeper_records (kind)`,
			`ALTER TABLE oncekeeper_records ALTER COLUMN state TYPE integer`, // what prepared statements give
			`ANALYZE oncekeeper_records`,
			`DROP INDEX more`,
		} {
			if _, err := admin.Exec(t.Context(), step); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			l.progress()
		}
		stop()
		if l.counts.failures > 0 {
			t.Errorf("%d calls failed", l.counts.failures)
		}
		l.check(s)
	})
}

func TestWhatANewerVersionWroteIsBusyAndLeftAsItIs(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		b.exec(`ALTER TABLE oncekeeper_records ADD COLUMN note text`)
		for name, change := range map[string]string{
			"a state above those known":      `state = 5`,
			"a state far above":              `state = 300`,
			"a state that passes for known":  `state = 257`,
			"a state below":                  `state = -1`,
			"no state":                       `state = 0`,
			"a settlement above those known": `last = 5`,
			"a settlement far above":         `last = 257`,
			"a settled one of that kind":     `state = 3, last = 9`,
		} {
			t.Run(name, func(t *testing.T) {
				id := name
				rec := b.granted(t, testBegin(id, "this"))
				b.exec(`UPDATE oncekeeper_records SET note = 'newer', expires = 1, sweep_at = 0, ` + change + ` WHERE id = '` + id + `'`)
				stored := func() (row string) {
					t.Helper()
					if err := connect(t, b.cfg.DSN).QueryRow(t.Context(), `SELECT r::text FROM oncekeeper_records AS r WHERE id = $1`, id).Scan(&row); err != nil {
						t.Fatal(err)
					}
					return row
				}
				before := stored()
				b.advance(1000 * time.Hour)
				etag := rec.Etag()
				for _, c := range []struct {
					cmd  lifecycle.Command
					want lifecycle.Verdict
				}{
					{testBegin(id, "another"), lifecycle.InProgress},
					{testBegin(id, "this"), lifecycle.InProgress},
					{testComplete(id, rec.Token), lifecycle.Unreadable},
					{testFail(id, rec.Token, oncekeeper.SettledFinal), lifecycle.Unreadable},
					{testFail(id, rec.Token, oncekeeper.SettledRetryable), lifecycle.Unreadable},
					{testFail(id, rec.Token, oncekeeper.SettledUnknown), lifecycle.Unreadable},
					{lifecycle.Renew{Key: testKey(id), Token: rec.Token}, lifecycle.Unreadable},
					{lifecycle.Resolve{Key: testKey(id), Etag: etag, Force: true}, lifecycle.Unreadable},
					{lifecycle.Delete{Key: testKey(id), Etag: etag, Force: true}, lifecycle.Unreadable},
				} {
					if got := b.apply(c.cmd); got.Err != nil || got.Verdict != c.want {
						t.Errorf("%T: got %v %v, want %v", c.cmd, got.Verdict, got.Err, c.want)
					}
				}
				// Two commands on one key, and many keys at once, go other ways.
				elsewhere := testBegin(id, "b")
				elsewhere.Key.Tenant = "another"
				for i, res := range b.Apply(t.Context(), testBegin(id, "a"), testComplete(id, rec.Token), elsewhere) {
					if want := []lifecycle.Verdict{lifecycle.InProgress, lifecycle.Unreadable, lifecycle.Granted}[i]; res.Err != nil || res.Verdict != want {
						t.Errorf("in a batch: got %v %v, want %v", res.Verdict, res.Err, want)
					}
				}
				if swept, err := b.Sweep(t.Context(), storage.SweepQuery{Limit: 100, Tenant: testKey(id).Tenant}); err != nil || swept.Records > 0 {
					t.Errorf("swept %+v, %v", swept, err)
				}
				if after := stored(); after != before {
					t.Errorf("the row was %s\nand is now %s", before, after)
				}
			})
		}
	})
}

// migratorRole is set in a copy of this test binary that migrates a database and
// ends.
const migratorRole = "ONCEKEEPER_TEST_MIGRATE"

func TestMain(m *testing.M) {
	dsn := os.Getenv(migratorRole)
	if dsn == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := Migrate(ctx, Config{DSN: dsn}); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		cancel()
		os.Exit(1)
	}
}

func TestAMigratorThatIsKilledInTheMiddleHoldsUpNoOther(t *testing.T) {
	for name, of := range map[string]func(t *testing.T, direct string) string{
		"direct":          func(_ *testing.T, direct string) string { return direct },
		"behind a pooler": func(t *testing.T, direct string) string { return pgtest.Pooler(t, direct) },
	} {
		t.Run(name, func(t *testing.T) {
			direct := pgtest.EmptyDatabase(t)
			dsn := of(t, direct)
			// Its first step waits for this transaction, which makes the same table.
			admin := connect(t, direct)
			tx, err := admin.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `CREATE TABLE oncekeeper_records ()`); err != nil {
				t.Fatal(err)
			}
			first := migrator(t, dsn)
			awaitBlocked(t, direct)
			if err := first.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := first.cmd.Wait(); err == nil {
				t.Fatal("it was not killed")
			}
			var others []*migratorProcess
			for range 3 {
				others = append(others, migrator(t, dsn))
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, other := range others {
				if err := other.cmd.Wait(); err != nil {
					t.Errorf("%v: %s", err, &other.said)
				}
			}
			mustOpen(t, Config{DSN: dsn})
		})
	}
}

type migratorProcess struct {
	cmd  *exec.Cmd
	said bytes.Buffer
}

// migrator starts a process that migrates. It gives up after a minute.
func migrator(t *testing.T, dsn string) *migratorProcess {
	t.Helper()
	p := &migratorProcess{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), migratorRole+"="+dsn)
	p.cmd.Stderr = &p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}
