package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// cluster is a primary, its synchronous standby, and the address of a database on
// whichever of them takes writes.
type cluster struct {
	primary, standby *pgtest.Server
	dsn              string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{primary: pgtest.Start(t, "fsync=off", "autovacuum=off")}
	database := asKeeper(t, c.primary.Database(t), "")
	c.standby = c.primary.Standby(t, "standby", "fsync=off", "autovacuum=off")
	c.dsn = pgtest.Hosts(t, database, c.primary, c.standby)
	c.synchronous(t)
	return c
}

// asKeeper gives the address of dsn for a role that may read and write, and no more.
func asKeeper(t *testing.T, dsn, options string) string {
	t.Helper()
	admin := connect(t, dsn)
	for _, sql := range []string{
		`CREATE ROLE keeper LOGIN ` + options,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO keeper`,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(dsn, "postgres@", "keeper@", 1)
}

// synchronous has the commits of the primary wait for the standby.
func (c *cluster) synchronous(t *testing.T) {
	t.Helper()
	c.primary.Set(t, "synchronous_standby_names", "standby")
	c.primary.Await(t, "EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// ledger is what callers were answered.
type ledger struct {
	t      *testing.T
	until  context.Context
	all    sync.WaitGroup
	mu     sync.Mutex
	counts counts
	// latest is the key whose completion was sent last.
	latest string
	// granted are the tokens by id, and completed says whose settlement was answered.
	granted   map[string]int64
	completed map[string]bool
}

type counts struct{ grants, completions, replays, failures int }

// callersOf has callers begin and complete keys of their own on s, and others ask for
// the same keys, until stop is called.
func callersOf(t *testing.T, s *Store, callers int) (l *ledger, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	l = &ledger{t: t, until: ctx, granted: map[string]int64{}, completed: map[string]bool{}}
	for i := range callers {
		l.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.operation(s, fmt.Sprintf("%d-%d", i, n))
			}
		})
		l.all.Go(func() {
			for ctx.Err() == nil {
				l.ask(s, fmt.Sprint("another ", i))
			}
		})
	}
	stop = func() {
		cancel()
		l.all.Wait()
	}
	t.Cleanup(stop)
	return l, stop
}

func lastingBegin(id, call string) lifecycle.Begin {
	begin := testBegin(id, call)
	begin.Grant.Lease = time.Hour
	return begin
}

func (l *ledger) operation(s *Store, id string) {
	rec := l.apply(s, lastingBegin(id, id), lifecycle.Granted)
	if rec == nil {
		return
	}
	l.note(func() { l.granted[id], l.latest, l.counts.grants = rec.Token, id, l.counts.grants+1 })
	if l.apply(s, testComplete(id, rec.Token), lifecycle.Settled) != nil {
		l.note(func() { l.completed[id], l.counts.completions = true, l.counts.completions+1 })
	}
}

// ask begins, as another, what was begun: it may be answered in progress, or with the
// outcome, which then stands.
func (l *ledger) ask(s *Store, call string) {
	var id string
	l.note(func() { id = l.latest })
	if id == "" {
		return
	}
	ctx, cancel := brief()
	defer cancel()
	switch res := s.Apply(ctx, lastingBegin(id, call))[0]; {
	case res.Err == nil && res.Verdict == lifecycle.Replayed:
		l.note(func() { l.completed[id], l.counts.replays = true, l.counts.replays+1 })
	case res.Err == nil && res.Verdict != lifecycle.InProgress:
		l.t.Errorf("%s was asked for by another, and got %v", id, res.Verdict)
	}
	if snapshot, err := s.Read(ctx, testKey(id)); err == nil && snapshot.Records[0] != nil && snapshot.Records[0].State == oncekeeper.StoredCompleted {
		l.note(func() { l.completed[id] = true })
	}
}

// brief is the context of a caller that leaves while its call is under way.
func brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Millisecond)
}

// apply applies cmd until it is answered, and gives the record; nil once it is over.
func (l *ledger) apply(s *Store, cmd lifecycle.Command, want lifecycle.Verdict) *oncekeeper.KeyRecord {
	for l.until.Err() == nil {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if want != lifecycle.Granted {
			ctx, cancel = brief() // a settlement is answered all the same
		}
		res := s.Apply(ctx, cmd)[0]
		cancel()
		switch {
		case errors.Is(res.Err, oncekeeper.ErrStoreUnavailable):
			l.note(func() { l.counts.failures++ })
			time.Sleep(5 * time.Millisecond) // a client waits longer before it calls again
		case res.Err != nil || res.Verdict != want:
			l.t.Errorf("%T of %s: %v %v", cmd, cmd.Target().ID, res.Verdict, res.Err)
			return nil
		default:
			return res.Record
		}
	}
	return nil
}

func (l *ledger) note(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
}

// await returns once more came to pass than before.
func (l *ledger) await(what string, enough func(since, now counts) bool) {
	l.t.Helper()
	var since, now counts
	l.note(func() { since = l.counts })
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if l.note(func() { now = l.counts }); enough(since, now) {
			return
		}
	}
	l.t.Fatalf("after a minute there is no %s: %+v, then %+v", what, since, now)
}

func (l *ledger) progress() {
	l.t.Helper()
	l.await("progress", func(since, now counts) bool { return now.completions > since.completions+100 })
}

// check holds what s has against all that was answered.
func (l *ledger) check(s *Store) {
	l.t.Helper()
	for id, token := range l.granted {
		snapshot, err := s.Read(context.Background(), testKey(id))
		if err != nil {
			l.t.Fatal(err)
		}
		rec := snapshot.Records[0]
		if rec == nil || rec.Token != token {
			l.t.Errorf("%s was granted with token %d, and is now %+v", id, token, rec)
		} else if l.completed[id] && rec.State != oncekeeper.StoredCompleted {
			l.t.Errorf("%s was answered as completed, and is now %+v", id, rec)
		}
	}
	l.t.Logf("%+v", l.counts)
}

func TestWhatWasAnsweredStandsOnTheStandbyThatIsPromoted(t *testing.T) {
	c := newCluster(t)
	s := mustOpen(t, Config{DSN: c.dsn})
	l, stop := callersOf(t, s, 8)
	l.progress()
	c.primary.Down(t, pgtest.Killed)
	c.standby.Promote(t)
	l.progress() // with the store that was open before
	stop()
	l.check(s)
}

func TestWhatNoStandbyHasIsNeverAnswered(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t, pgtest.Hosts(t, c.dsn, c.primary))
	s := mustOpen(t, Config{DSN: p.beside(c.standby.Dir()), WriteTimeout: 500 * time.Millisecond})
	l, stop := callersOf(t, s, 8)
	l.progress()
	c.standby.Down(t, pgtest.Immediate)
	stuck := func(since, now counts) bool { return now.failures > since.failures+40 }
	l.await("failure while commits wait for the standby", stuck)
	if _, cancels := p.counts(); cancels > 0 {
		t.Errorf("%d commits were cancelled by request", cancels)
	}
	// An operator ends the waits: what was committed is there to see.
	operator := connect(t, c.primary.Address)
	for _, end := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		for range 5 {
			endWaits(t, operator, end)
		}
		l.await("failure once an operator ended waits", stuck)
	}
	// And so it is once the primary was started again.
	c.primary.Down(t, pgtest.Killed)
	c.primary.Up(t)
	l.await("failure once the primary was started again", stuck)
	c.primary.Down(t, pgtest.Killed)
	c.standby.Up(t)
	c.standby.Promote(t)
	l.progress()
	stop()
	l.check(s)
}

// TestASessionThatHidesWarningsIsRefused: a warning is all that tells a commit which
// no standby has from one that is safe.
func TestASessionThatHidesWarningsIsRefused(t *testing.T) {
	dsn := pgtest.Database(t)
	for level, want := range map[string]string{"error": "RESET client_min_messages", "warning": ""} {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("client_min_messages", level)
		u.RawQuery = q.Encode()
		s, err := Open(t.Context(), Config{DSN: u.String()})
		switch {
		case err == nil:
			mustClose(t, s)
			if want != "" {
				t.Errorf("at %s it is served, want a refusal", level)
			}
		case want == "" || !strings.Contains(err.Error(), want):
			t.Errorf("at %s: %v, want %q in it", level, err, want)
		}
	}
}

// endWaits ends every wait of a commit for its standby, once there is one.
func endWaits(t *testing.T, operator *pgx.Conn, how string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var ended int
		err := operator.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE `+how+`(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&ended)
		if err != nil {
			t.Fatal(err)
		}
		if ended > 0 {
			return
		}
	}
	t.Fatal("no commit waits for its standby")
}

func TestAStoreFollowsWhoeverTakesWrites(t *testing.T) {
	c := newCluster(t)
	s := mustOpen(t, Config{DSN: c.dsn})
	l, stop := callersOf(t, s, 8)
	l.progress()
	c.primary.Down(t, pgtest.Fast)
	c.standby.Promote(t)
	l.progress()
	c.primary.Follow(t, c.standby, "back")
	c.primary.Up(t)
	l.progress()
	c.standby.Down(t, pgtest.Fast)
	c.primary.Promote(t)
	l.progress()
	stop()
	l.check(s)
}

func TestConnectionsToAServerThatWasDemotedAreLeft(t *testing.T) {
	c := newCluster(t)
	s := mustOpen(t, Config{DSN: c.dsn})
	var readers sync.WaitGroup
	for i := range 200 { // many connections, all idle
		readers.Go(func() {
			if _, err := s.Read(context.Background(), testKey(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	for i := range 20 {
		if res := s.Apply(context.Background(), testBegin(fmt.Sprint(i), ""))[0]; res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	c.primary.Set(t, "default_transaction_read_only", "on")
	c.standby.Promote(t)
	newer := mustOpen(t, Config{DSN: pgtest.Hosts(t, c.dsn, c.standby)})
	if res := newer.Apply(context.Background(), testBegin("newer", ""))[0]; res.Err != nil {
		t.Fatal(res.Err)
	}
	for range 20 {
		snapshot, err := s.Read(context.Background(), testKey("newer"))
		if err != nil || snapshot.Records[0] == nil {
			t.Fatalf("a read is answered from before the demotion: %+v, %v", snapshot, err)
		}
	}
	for i := range 20 {
		res := s.Apply(context.Background(), testBegin(fmt.Sprint("more ", i), ""))[0]
		if res.Err != nil || res.Verdict != lifecycle.Granted {
			t.Errorf("a call was lost to a server that was demoted: %v %v", res.Verdict, res.Err)
		}
	}
}
