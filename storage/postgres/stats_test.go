package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/migrations"
)

func TestTheStoreTellsByWhichPathCommandsWent(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		rec := b.granted(t, testBegin("1", "this"))                                                                                 // fast
		b.Apply(t.Context(), testBegin("1", "other"))                                                                               // in progress: look
		b.Apply(t.Context(), lifecycle.Renew{Key: rec.Key, Token: rec.Token, Lease: 1e9 * 60})                                      // locked
		b.Apply(t.Context(), lifecycle.Settle{Key: rec.Key, Token: rec.Token, As: oncekeeper.SettledComplete, Retention: 1e9 * 60}) // fast
		st := b.Stats()
		if want := [paths]int64{pathFast: 2, pathLook: 1, pathLocked: 1}; st.Commands != want {
			t.Errorf("commands by path %v: got %v, want %v", PathNames, st.Commands, want)
		}
		if st.Batches.Count() != 4 || st.Batches.Sum != 4 || st.Took.Count() != 4 {
			t.Errorf("got batches %+v that took %+v, want four of one command each", st.Batches, st.Took)
		}
		if st.Trips[tripFast] != 3 || st.Trips[tripLook] != 1 || st.Trips[tripLocked] != 1 {
			t.Errorf("trips of %v: got %v, want 3 fast, 1 look, 1 locked", TripNames, st.Trips)
		}
		if st.Retries != [retries]int64{} || st.LostAnswers+st.Unreplicated+st.QueueFull+st.QueuedCommands != 0 || st.Down {
			t.Errorf("a store with no trouble tells %+v", st)
		}
		if st.Conns < 1 || st.MaxConns < st.Conns || st.CommittersLimit < 1 {
			t.Errorf("its pool is told as %+v", st)
		}
	})
}

func TestARetryIsCountedByItsCause(t *testing.T) {
	c := newCounters()
	for _, err := range []error{
		&pgconn.PgError{Code: "40001"}, &pgconn.PgError{Code: "40001"}, fmt.Errorf("writing: %w", &pgconn.PgError{Code: "40P01"}),
		&pgconn.PgError{Code: "25006"}, errOvertaken, errors.New("the connection broke"),
	} {
		c.retried(err)
	}
	want := map[string]int64{"serialization": 2, "deadlock": 1, "demoted": 1, "overtaken": 1, "other": 1}
	for i, name := range RetryNames {
		if got := c.retries[i].Load(); got != want[name] {
			t.Errorf("%s: got %d, want %d", name, got, want[name])
		}
	}
}

func TestAClosedStoreStillTellsItsNumbers(t *testing.T) {
	b := newBench(t, PlanMany)
	b.granted(t, testBegin("1", "this"))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if st := b.Stats(); st.Commands[pathFast] != 1 || st.Conns != 0 {
		t.Errorf("after Close it tells %+v, want its one command and no connection", st)
	}
	if err := b.CheckSchema(t.Context()); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
		t.Errorf("after Close CheckSchema gives %v, want ErrStoreUnavailable", err)
	}
}

func TestASchemaThatBreaksThisVersionWhileItRunsIsNoticed(t *testing.T) {
	b := newBench(t, PlanMany)
	check := func(when string, want error) {
		t.Helper()
		if err := b.CheckSchema(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: CheckSchema gives %v, want %v", when, err, want)
		}
	}
	check("as it was opened", nil)
	b.exec(fmt.Sprintf(`INSERT INTO oncekeeper_schema (version_id, is_applied) VALUES (%d, true)`, migrations.Newest()+1))
	check("a step that breaks nothing", nil)
	b.exec(fmt.Sprintf(`INSERT INTO oncekeeper_breaking_steps VALUES (%d)`, migrations.Newest()+1))
	check("a breaking step", migrations.ErrNewSchema)
	b.exec(`DELETE FROM oncekeeper_schema`)
	check("an older schema", migrations.ErrOldSchema)
	b.exec(`DROP TABLE oncekeeper_breaking_steps`)
	b.exec(fmt.Sprintf(`INSERT INTO oncekeeper_schema (version_id, is_applied) VALUES (%d, true)`, migrations.Newest()+1))
	check("one that cannot be read", oncekeeper.ErrStoreUnavailable)
}
