package pgxreceipt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/pgxreceipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/receipttest"
	"github.com/oncekeeper/oncekeeper/storage/postgres/pgtest"
)

// attempt gives the context of one, whose answers are text.
func attempt(ctx context.Context, token int64) (context.Context, *receipt.Permit) {
	p := &receipt.Permit{
		Claim: receipt.Claim{Key: oncekeeper.Key{Tenant: "acme", Operation: "charge", ID: "1"}, Token: token},
		Codec: receipttest.Text{},
	}
	return receipt.WithPermit(ctx, p), p
}

func charge(ctx context.Context, tx pgx.Tx) (string, error) {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('charge')")
	return "charged", err
}

type given struct {
	answer string
	err    error
}

func inBackground(ctx context.Context, store *pgxreceipt.Store) <-chan given {
	done := make(chan given, 1)
	go func() {
		answer, err := pgxreceipt.InTx(ctx, store, charge)
		done <- given{answer, err}
	}()
	return done
}

// behindProxy gives a database whose commits a test may hold.
func behindProxy(t *testing.T, patience time.Duration) (*database, *receipttest.Proxy) {
	t.Helper()
	proxy := receipttest.NewProxy(t, pgtest.EmptyDatabase(t))
	return open(t, proxy.Address, pgxreceipt.Config{Patience: patience}), proxy
}

func TestACommitOutlastsTheContextThatEndsDuringIt(t *testing.T) {
	db, proxy := behindProxy(t, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	ctx, p := attempt(ctx, 1)
	arrived, release := proxy.HoldCommit()
	done := inBackground(ctx, db.Store)
	<-arrived
	cancel()
	release(false)
	if got := <-done; got.answer != "charged" || got.err != nil || p.Applied() == nil {
		t.Errorf("it gave %+v and left %+v, want what was committed", got, p.Applied())
	}
	if n := proxy.Cancels(); n != 0 {
		t.Errorf("%d statements were asked to be cancelled, want none", n)
	}
}

func TestACommitWithNoAnswerIsFoundThoughItsCallerIsGone(t *testing.T) {
	db, proxy := behindProxy(t, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	ctx, p := attempt(ctx, 1)
	arrived, release := proxy.HoldCommit()
	done := inBackground(ctx, db.Store)
	<-arrived
	cancel()
	release(true)
	if got := <-done; got.answer != "charged" || got.err != nil || p.Applied() == nil {
		t.Errorf("it gave %+v and left %+v, want what was committed", got, p.Applied())
	}
	if n := proxy.Cancels(); n != 0 {
		t.Errorf("%d statements were asked to be cancelled, want none", n)
	}
}

func TestACommitThatCannotBeLookedForIsNotKnown(t *testing.T) {
	for name, guarded := range map[string]bool{"in an attempt": true, "outside one": false} {
		t.Run(name, func(t *testing.T) {
			db, proxy := behindProxy(t, 200*time.Millisecond)
			ctx, p := attempt(t.Context(), 1)
			if !guarded {
				ctx = t.Context()
			}
			arrived, release := proxy.HoldCommit()
			done := inBackground(ctx, db.Store)
			<-arrived
			proxy.Down(true)
			release(true)
			got := <-done
			if got.err == nil || oncekeeper.IsRolledBack(got.err) {
				t.Errorf("it gave %+v, want an error that is not marked", got)
			}
			if guarded && (p.Applied() != nil || !errors.Is(p.Take(), receipt.ErrTwice)) {
				t.Errorf("the attempt may go on as if nothing had been sent")
			}
			proxy.Down(false)
			if n := db.Effects(t, "charge"); n != 1 {
				t.Fatalf("%d effects, want 1", n)
			}
			if !guarded {
				return
			}
			next, _ := attempt(t.Context(), 2)
			if answer, err := pgxreceipt.InTx(next, db.Store, charge); answer != "charged" || err != nil {
				t.Errorf("the next attempt got %q, %v", answer, err)
			}
			if n := db.Effects(t, "charge"); n != 1 {
				t.Errorf("%d effects after the next attempt, want 1", n)
			}
		})
	}
}

// What the function hides from InTx, the commit shows.
func TestATransactionThatTheFunctionBrokeIsRolledBack(t *testing.T) {
	address := pgtest.EmptyDatabase(t)
	for name, c := range map[string]struct {
		breaks func(context.Context, pgx.Tx)
	}{
		"an error of the database that it ignored": {
			breaks: func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, "SELECT 1/0") },
		},
		"rows that it left open": {
			breaks: func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Query(ctx, "SELECT generate_series(1, 10)") },
		},
		"a connection that it lost": {
			breaks: func(ctx context.Context, tx pgx.Tx) {
				_, _ = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			},
		},
		"a connection that it closed": {
			breaks: func(ctx context.Context, tx pgx.Tx) { _ = tx.Conn().Close(ctx) },
		},
		"a claim that it deleted": {
			breaks: func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, "DELETE FROM oncekeeper_receipts") },
		},
		"a constraint that is checked at the end": {
			breaks: func(ctx context.Context, tx pgx.Tx) {
				_, _ = tx.Exec(ctx, "INSERT INTO deferred VALUES (1), (1)")
			},
		},
		"a commit, which it is refused": {
			breaks: func(ctx context.Context, tx pgx.Tx) {
				if tx.Commit(ctx) != nil {
					_, _ = tx.Exec(ctx, "SELECT 1/0")
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, address, pgxreceipt.Config{})
			for _, statement := range []string{"DROP TABLE IF EXISTS deferred", "CREATE TABLE deferred (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"} {
				if _, err := db.pool.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			for _, guarded := range []bool{true, false} {
				ctx, p := attempt(t.Context(), 1)
				if !guarded {
					if ctx = t.Context(); name == "a claim that it deleted" {
						continue
					}
				}
				_, err := pgxreceipt.InTx(ctx, db.Store, func(ctx context.Context, tx pgx.Tx) (string, error) {
					answer, err := charge(ctx, tx)
					c.breaks(ctx, tx)
					return answer, err
				})
				// Outside an attempt nothing is written after the function, so that a lost
				// connection is first seen by the commit, which was then not sent either.
				if err == nil || !oncekeeper.IsRolledBack(err) || p.Applied() != nil {
					t.Errorf("guarded: %v: it gave %v, want an error that is marked as rolled back", guarded, err)
				}
			}
			if n := db.Effects(t, "charge"); n != 0 {
				t.Errorf("%d effects, want none", n)
			}
		})
	}
}

func TestACommitThatEndsAsARollbackIsPgxsOwnError(t *testing.T) {
	db := open(t, pgtest.EmptyDatabase(t), pgxreceipt.Config{})
	_, err := pgxreceipt.InTx(t.Context(), db.Store, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return "ignored", nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("it gave %v, want %v", err, pgx.ErrTxCommitRollback)
	}
}

func TestACommitIsTraced(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.EmptyDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	traced := &tracer{}
	config.ConnConfig.Tracer = traced
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgxreceipt.New(pgxreceipt.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgxreceipt.InTx(t.Context(), store, func(context.Context, pgx.Tx) (int, error) { return 0, nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(traced.ended); n == 0 || traced.ended[n-1] != "COMMIT" {
		t.Errorf("the tracer saw %q, want COMMIT at the end", traced.ended)
	}
}

type tracer struct{ ended []string }

func (*tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (t *tracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	t.ended = append(t.ended, data.CommandTag.String())
}
