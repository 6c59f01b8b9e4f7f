package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// behindProxy gives a bench whose store reaches its database through a proxy, on
// one connection for writes.
func behindProxy(t *testing.T, plan Plan) (*bench, *proxy) {
	b := newBench(t, plan)
	p := newProxy(t, b.cfg.DSN)
	cfg := b.cfg
	cfg.DSN, cfg.Committers, cfg.MaxConns, cfg.WriteTimeout = p.dsn, 1, 2, 5*time.Second
	b.Store = mustOpen(t, cfg)
	return b, p
}

func TestACutAnywhereLosesNothingAndGrantsNothingTwice(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b, p := behindProxy(t, plan)
		// Each statement is described once on each connection: not what is counted.
		warm := func() {
			b.granted(t, testBegin("warm", fmt.Sprint(time.Now().UnixNano())))
			b.advance(time.Hour)
		}
		for name, of := range map[string]func(id string) (lifecycle.Command, lifecycle.Verdict){
			"a fresh begin": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return testBegin(id, "this"), lifecycle.Granted
			},
			"a takeover": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				b.granted(t, testBegin(id, "other"))
				b.advance(time.Hour)
				return testBegin(id, "this"), lifecycle.Granted
			},
			"a completion": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return testComplete(id, b.granted(t, testBegin(id, "this")).Token), lifecycle.Settled
			},
			"a release": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return testFail(id, b.granted(t, testBegin(id, "this")).Token, oncekeeper.SettledRetryable), lifecycle.Settled
			},
			"an unknown outcome": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return testFail(id, b.granted(t, testBegin(id, "this")).Token, oncekeeper.SettledUnknown), lifecycle.Settled
			},
			"a final failure": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return testFail(id, b.granted(t, testBegin(id, "this")).Token, oncekeeper.SettledFinal), lifecycle.Settled
			},
			"a completion after an unknown outcome": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				token := b.granted(t, testBegin(id, "this")).Token
				b.apply(testFail(id, token, oncekeeper.SettledUnknown))
				return testComplete(id, token), lifecycle.Settled
			},
			"a release of a takeover": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				b.granted(t, testBegin(id, "other"))
				b.advance(time.Hour)
				return testFail(id, b.granted(t, testBegin(id, "this")).Token, oncekeeper.SettledRetryable), lifecycle.Settled
			},
			"a resolution": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				etag := b.granted(t, testBegin(id, "this")).Etag()
				return lifecycle.Resolve{Key: testKey(id), Etag: etag, Force: true, Response: &oncekeeper.Response{Body: []byte("by hand")}}, lifecycle.Resolved
			},
			"a deletion": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return lifecycle.Delete{Key: testKey(id), Etag: b.granted(t, testBegin(id, "this")).Etag(), Force: true}, lifecycle.Deleted
			},
			"a renewal": func(id string) (lifecycle.Command, lifecycle.Verdict) {
				return lifecycle.Renew{Key: testKey(id), Token: b.granted(t, testBegin(id, "this")).Token, Lease: time.Hour}, lifecycle.Renewed
			},
		} {
			for nth := range 5 {
				for _, behind := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, message %d, behind %v", name, nth, behind), func(t *testing.T) {
						id := t.Name()
						warm()
						cmd, want := of(id)
						before, err := b.Read(t.Context(), testKey(id))
						if err != nil {
							t.Fatal(err)
						}
						p.cut(nth, behind)
						got := b.apply(cmd)
						p.cut(-1, false)
						if errors.Is(got.Err, oncekeeper.ErrStoreUnavailable) && behind && provenByNothing[want] {
							b.isApplied(t, cmd)
							return
						}
						if got.Err != nil || got.Verdict != want {
							t.Fatalf("got %v %v, want %v", got.Verdict, got.Err, want)
						}
						changed := *got.Record
						if was := before.Records[0]; was != nil && changed.Attempt > was.Attempt+1 || was == nil && changed.Attempt != 1 {
							t.Errorf("attempt %d was granted, of %+v", changed.Attempt, was)
						}
					})
				}
			}
		}
		if _, cancels := p.counts(); cancels > 0 {
			t.Errorf("%d statements were cancelled by request", cancels)
		}
	})
}

// provenByNothing are what cannot be told from another's like it: an operator looks
// again.
var provenByNothing = map[lifecycle.Verdict]bool{lifecycle.Resolved: true, lifecycle.Deleted: true}

// isApplied says that cmd was, once: the record's etag is another.
func (b *bench) isApplied(t *testing.T, cmd lifecycle.Command) {
	t.Helper()
	if again := b.apply(cmd); again.Verdict != lifecycle.AlreadySettled && again.Verdict != lifecycle.EtagMismatch {
		t.Errorf("an answer was lost, and then %T is %v %v", cmd, again.Verdict, again.Err)
	}
	snapshot, err := b.Read(t.Context(), cmd.Target())
	if err != nil || snapshot.Records[0] == nil || snapshot.Records[0].Revision != 2 {
		t.Errorf("it was applied, and the record is %+v, %v", snapshot.Records, err)
	}
}

func TestTheEchoOfALostCommitIsNoVerdict(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b, p := behindProxy(t, plan)
		b.granted(t, testBegin("warm", ""))
		p.cut(0, true)
		got := b.apply(testBegin("1", "")) // no call id: nothing can prove whose grant it is
		if cuts, _ := p.counts(); cuts != 1 {
			t.Fatalf("%d cuts", cuts)
		}
		if !errors.Is(got.Err, oncekeeper.ErrStoreUnavailable) {
			t.Errorf("got %v %v, want ErrStoreUnavailable", got.Verdict, got.Err)
		}
		if again := b.apply(testBegin("1", "other")); again.Verdict != lifecycle.InProgress {
			t.Errorf("it was not applied: %v %v", again.Verdict, again.Err)
		}
	})
}

func TestAStoreThatIsCutOffAnswersSoonAndRecoversByItself(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		b, p := behindProxy(t, plan)
		b.granted(t, testBegin("warm", ""))
		p.mu.Lock()
		server := p.server
		p.mu.Unlock()
		for range 2 {
			p.mu.Lock()
			p.server = "/nowhere"
			for conn := range p.broken {
				delete(p.broken, conn)
			}
			p.mu.Unlock()
			b.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
			for i := range 100 {
				if got := b.apply(testBegin(fmt.Sprint(i), "")); !errors.Is(got.Err, oncekeeper.ErrStoreUnavailable) {
					t.Fatalf("got %v %v, want ErrStoreUnavailable", got.Verdict, got.Err)
				}
			}
			if err := b.Ping(t.Context()); !errors.Is(err, oncekeeper.ErrStoreUnavailable) {
				t.Errorf("ping: %v", err)
			}
			p.mu.Lock()
			p.server = server
			p.mu.Unlock()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			for b.Ping(ctx) != nil && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
			if res := b.apply(testBegin("0", "back")); res.Err != nil {
				t.Errorf("once the database is back: %v", res.Err)
			}
			b.advance(time.Hour)
		}
	})
}

func TestASettlementIsProvenByItsBeingInPlace(t *testing.T) {
	w := &work{key: testKey("1")}
	rec, _ := lifecycle.Apply(nil, testBegin("1", "this"), 1000)
	done, _ := lifecycle.Apply(rec, testFail("1", rec.Token, oncekeeper.SettledRetryable), 2000)
	taken, _ := lifecycle.Apply(done, testBegin("1", "other"), 3000)
	for name, c := range map[string]struct {
		cmd    lifecycle.Command
		stored *oncekeeper.KeyRecord
		proof  bool
	}{
		"its own settlement":       {testFail("1", rec.Token, oncekeeper.SettledRetryable), done, true},
		"a later attempt":          {testFail("1", rec.Token, oncekeeper.SettledRetryable), taken, false},
		"no record":                {testFail("1", rec.Token, oncekeeper.SettledRetryable), nil, false},
		"its own call":             {testBegin("1", "other"), taken, true},
		"another's call":           {testBegin("1", "third"), taken, false},
		"a call that never was":    {testBegin("1", "third"), nil, true},
		"another's fingerprint":    {lifecycle.Begin{Key: testKey("1"), FingerprintScheme: "pb1"}, taken, true},
		"a renewal that is fenced": {lifecycle.Renew{Key: testKey("1"), Token: rec.Token}, taken, true},
		"an operator's word":       {lifecycle.Resolve{Key: testKey("1"), Etag: done.Etag()}, taken, false},
	} {
		var res storage.Result
		w.calls = []*call{{cmd: c.cmd, result: &res, doubt: true}}
		next, results := judge(w, c.stored, 4000)
		if proven := results[0].Err == nil; proven != c.proof {
			t.Errorf("%s: got %v %v", name, results[0].Verdict, results[0].Err)
		} else if !proven && next != c.stored {
			t.Errorf("%s: it was written all the same", name)
		}
	}
}
