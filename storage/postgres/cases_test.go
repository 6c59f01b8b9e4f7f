package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// bench is a store on a database of its own, whose clock stands until the test
// moves it, and another hand on that database.
type bench struct {
	*Store
	*hands
	cfg Config
}

func newBench(t testing.TB, plan Plan) *bench {
	t.Helper()
	cfg := Config{DSN: pgtest.Database(t), Plan: plan, clock: testClock}
	h := handsOn(t, cfg.DSN)
	cfg.elapsed = h.elapsed
	return &bench{mustOpen(t, cfg), h, cfg}
}

// onEachPlan runs a test under each plan.
func onEachPlan(t *testing.T, test func(t *testing.T, plan Plan)) {
	for _, plan := range []Plan{PlanMany, PlanSingle} {
		t.Run(string(plan), func(t *testing.T) { test(t, plan) })
	}
}

func (b *bench) apply(cmd lifecycle.Command) storage.Result {
	return b.Apply(context.Background(), cmd)[0]
}

func (b *bench) granted(t testing.TB, begin lifecycle.Begin) *oncekeeper.KeyRecord {
	t.Helper()
	res := b.apply(begin)
	if res.Err != nil || res.Verdict != lifecycle.Granted {
		t.Fatalf("begin: %v %v, want granted", res.Verdict, res.Err)
	}
	return res.Record
}

func testComplete(id string, token int64) lifecycle.Settle {
	return lifecycle.Settle{
		Key: testKey(id), Token: token, As: oncekeeper.SettledComplete,
		Response: &oncekeeper.Response{Body: []byte("paid")},
	}
}

func testFail(id string, token int64, as oncekeeper.Settlement) lifecycle.Settle {
	return lifecycle.Settle{Key: testKey(id), Token: token, As: as, Status: &oncekeeper.Status{Code: 9, Message: "no"}}
}

// awaitBlocked returns once a statement of the database waits for a lock.
func awaitBlocked(t testing.TB, dsn string) {
	t.Helper()
	conn := connect(t, dsn)
	blocked := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	if pgtest.Distributed() {
		blocked = `SELECT count(*) FROM citus_lock_waits`
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		var n int
		err := conn.QueryRow(t.Context(), blocked).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nothing waits for a lock")
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// inserted begins key in a transaction of another hand, which it leaves open.
func (b *bench) inserted(t testing.TB, begin lifecycle.Begin) pgx.Tx {
	t.Helper()
	tx, err := connect(t, b.cfg.DSN).Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var columns columnsOf
	if err := addBegin(&columns, begin); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), b.sql.begin.one, columns.args()...); err != nil {
		t.Fatal(err)
	}
	return tx
}

// locked locks key's row in a transaction of another hand, which it leaves open.
func (b *bench) locked(t testing.TB, key oncekeeper.Key) pgx.Tx {
	t.Helper()
	tx, err := connect(t, b.cfg.DSN).Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), b.sql.lock.one, key.Tenant, key.Operation, key.ID); err != nil {
		t.Fatal(err)
	}
	return tx
}

// during runs a command, and while it waits for a lock do; it gives its result.
func (b *bench) during(t testing.TB, cmd lifecycle.Command, do func()) storage.Result {
	t.Helper()
	result := make(chan storage.Result, 1)
	go func() { result <- b.apply(cmd) }()
	awaitBlocked(t, b.cfg.DSN)
	do()
	return <-result
}

func TestARecoveryThatReadAnOldRecordWritesNothingOverANewOne(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		for name, c := range map[string]struct {
			meanwhile func(other *Store, token int64) lifecycle.Command
			want      lifecycle.Verdict
		}{
			"completed":  {func(_ *Store, token int64) lifecycle.Command { return testComplete("1", token) }, lifecycle.Replayed},
			"taken over": {func(*Store, int64) lifecycle.Command { return testBegin("1", "c") }, lifecycle.InProgress},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, plan)
				other := mustOpen(t, b.cfg)
				first := b.granted(t, testBegin("1", "a"))
				b.advance(time.Hour)
				b.afterLook = func() {
					if res := other.Apply(context.Background(), c.meanwhile(other, first.Token))[0]; res.Refusal() != nil {
						t.Errorf("meanwhile: %v", res.Refusal())
					}
				}
				if got := b.apply(testBegin("1", "b")); got.Err != nil || got.Verdict != c.want {
					t.Errorf("the recovery got %v %v, want %v", got.Verdict, got.Err, c.want)
				}
			})
		}
	})
}

func TestABeginThatWaitsForAnothersInsertIsAnsweredWhateverBecomesOfIt(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		commit := func(tx pgx.Tx) error { return tx.Commit(context.Background()) }
		rollback := func(tx pgx.Tx) error { return tx.Rollback(context.Background()) }
		for name, c := range map[string]struct {
			end         func(pgx.Tx) error
			fingerprint string
			want        lifecycle.Verdict
		}{
			"committed":                       {commit, "f", lifecycle.InProgress},
			"rolled back":                     {rollback, "f", lifecycle.Granted},
			"committed, by another request":   {commit, "another", lifecycle.Mismatch},
			"rolled back, by another request": {rollback, "another", lifecycle.Granted},
		} {
			t.Run(name, func(t *testing.T) {
				first, second := testBegin(name, "other"), testBegin(name, "this")
				first.Fingerprint, second.Fingerprint = []byte("f"), []byte(c.fingerprint)
				tx := b.inserted(t, first)
				got := b.during(t, second, func() {
					if err := c.end(tx); err != nil {
						t.Error(err)
					}
				})
				if got.Err != nil || got.Verdict != c.want {
					t.Errorf("got %v %v, want %v", got.Verdict, got.Err, c.want)
				}
			})
		}
	})
}

func TestARecordThatVanishesBetweenTheConflictAndTheReadIsBegunOnce(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		vanished := int64(0)
		for round := range 5 {
			id := fmt.Sprint(round)
			token := b.granted(t, testBegin(id, "first")).Token
			if res := b.apply(testComplete(id, token)); res.Refusal() != nil {
				t.Fatal(res.Refusal())
			}
			b.advance(3 * time.Hour)
			var sweep sync.Once
			b.afterLook = func() {
				sweep.Do(func() {
					swept, err := b.Sweep(context.Background(), storage.SweepQuery{Limit: 10})
					if err != nil || swept.Records > 1 {
						t.Errorf("swept %+v, %v", swept, err)
					}
					vanished += swept.Records // none where one of the others has begun the key by its lock
				})
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			count := map[lifecycle.Verdict]int{}
			for i := range 20 {
				all.Go(func() {
					res := b.apply(testBegin(id, fmt.Sprint(i)))
					if res.Err != nil {
						t.Error(res.Err)
					}
					mu.Lock()
					defer mu.Unlock()
					count[res.Verdict]++
				})
			}
			all.Wait()
			if count[lifecycle.Granted] != 1 || count[lifecycle.InProgress] != 19 {
				t.Errorf("got %v, want one granted and the rest in progress", count)
			}
		}
		if vanished == 0 {
			t.Error("no record vanished between the conflict and the read: this test is to have some that do")
		}
	})
}

func TestALeaseIsNeverToldLongerThanItIsStored(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		const lease, wait = 2 * time.Second, 5 * time.Second
		begin := func(id, call string) lifecycle.Begin {
			c := testBegin(id, call)
			c.Grant.Lease = lease
			return c
		}
		check := func(t *testing.T, b *bench, got storage.Result, atLeast time.Duration) {
			t.Helper()
			if got.Err != nil || got.Verdict != lifecycle.Granted && got.Verdict != lifecycle.Renewed {
				t.Fatalf("got %v %v", got.Verdict, got.Err)
			}
			stored, err := b.Read(context.Background(), got.Record.Key)
			if err != nil {
				t.Fatal(err)
			}
			told, left := got.Record.LeaseEnd.Sub(got.Now), stored.Records[0].LeaseEnd.Sub(stored.Now)
			if told > left || told < atLeast {
				t.Errorf("a lease of %v was told, and %v are stored; want at least %v", told, left, atLeast)
			}
		}
		for _, call := range []string{"", "this"} {
			t.Run("behind another's insert, call id "+call, func(t *testing.T) {
				b := newBench(t, plan)
				tx := b.inserted(t, begin("1", "other"))
				got := b.during(t, begin("1", call), func() {
					b.advance(wait)
					if err := tx.Rollback(context.Background()); err != nil {
						t.Error(err)
					}
				})
				atLeast := -wait
				if call != "" {
					atLeast = lease
				}
				check(t, b, got, atLeast)
			})
		}
		for name, of := range map[string]func(token int64) lifecycle.Command{
			"a takeover": func(int64) lifecycle.Command { return begin("1", "this") },
			"a renewal":  func(token int64) lifecycle.Command { return lifecycle.Renew{Key: testKey("1"), Token: token} },
		} {
			t.Run(name+" behind another's lock", func(t *testing.T) {
				b := newBench(t, plan)
				token := b.granted(t, begin("1", "other")).Token
				b.advance(wait)
				tx := b.locked(t, testKey("1"))
				got := b.during(t, of(token), func() {
					b.advance(wait)
					if err := tx.Rollback(context.Background()); err != nil {
						t.Error(err)
					}
				})
				check(t, b, got, lease)
			})
		}
	})
}

func TestACollisionIsTriedAgainWhereverItStrikes(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b := newBench(t, plan)
		b.exec(`CREATE SEQUENCE faults`)
		for _, code := range []string{serializationFailure, deadlockDetected, nodeOutOfReach} {
			for _, at := range []string{"BEFORE INSERT", "BEFORE UPDATE", "CONSTRAINT AFTER INSERT", "CONSTRAINT AFTER UPDATE"} {
				for times, wantErr := range map[int]error{2: nil, 1000: oncekeeper.ErrStoreUnavailable} {
					name := fmt.Sprintf("%s %s %d times", code, at, times)
					t.Run(name, func(t *testing.T) {
						id := name
						lapsed, running := b.granted(t, testBegin(id+" lapsed", "a")), (*oncekeeper.KeyRecord)(nil)
						b.advance(time.Hour)
						running = b.granted(t, testBegin(id+" running", "a"))
						b.exec(`ALTER SEQUENCE faults RESTART`)
						b.exec(faultsAt(at, code, times))
						results := b.Apply(context.Background(),
							testBegin(id+" new", "b"), testComplete(id+" running", running.Token), testBegin(id+" lapsed", "b"))
						b.exec(`DROP TRIGGER faults ON oncekeeper_records`)
						failed := 0
						for _, res := range results {
							if res.Err != nil && !errors.Is(res.Err, wantErr) || res.Err == nil && res.Refusal() != nil {
								t.Errorf("got %v %v, want error %v", res.Verdict, res.Refusal(), wantErr)
							}
							if res.Err != nil {
								failed++
							}
						}
						if wantErr != nil && failed == 0 {
							t.Error("a fault without end was not told")
						}
						for range 2 * b.pool.Config().MaxConns {
							if got := b.apply(testBegin(id+" lapsed", "b")); got.Err != nil {
								t.Fatalf("a connection came back broken: %v", got.Err)
							}
						}
						if lapsed.Token >= b.apply(testBegin(id+" lapsed", "b")).Record.Token {
							t.Error("it was not taken over")
						}
					})
				}
			}
		}
	})
}

// nodeOutOfReach is what a distributed engine gives for a node of its own.
const nodeOutOfReach = "08006"

// faultsAt makes the first statements of a kind fail, or their commits.
func faultsAt(at, code string, times int) string {
	body := fmt.Sprintf(`BEGIN IF nextval('faults') <= %d THEN RAISE EXCEPTION 'planted' USING ERRCODE = '%s'; END IF; RETURN NEW; END`, times, code)
	trigger := `CREATE TRIGGER faults ` + at + ` ON oncekeeper_records FOR EACH ROW`
	var when string
	if _, err := fmt.Sscanf(at, "CONSTRAINT AFTER %s", &when); err == nil {
		trigger = `CREATE CONSTRAINT TRIGGER faults AFTER ` + when + ` ON oncekeeper_records DEFERRABLE INITIALLY DEFERRED FOR EACH ROW`
	}
	return `CREATE OR REPLACE FUNCTION faults() RETURNS trigger LANGUAGE plpgsql AS $$` + body + `$$; ` + trigger + ` EXECUTE FUNCTION faults()`
}
