package business

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
)

// childOf gives what a process of w's business does for request.
func (w *world) childOf(request string, stopAt step) job {
	return job{Keeper: w.reach(), Shop: w.address, Request: request, Amount: 10, Lease: shortLease, StopAt: stopAt}
}

// 10. The key is the workflow's run and the activity, so a new worker asks for the
// same thing.
func TestAnActivityThatDiesBeforeItReportsIsNotDoneAgain(t *testing.T) {
	inEveryWorldOfProcesses(t, func(w *world) {
		const activity = "run-7/charge-customer"
		worker := startChild(w.T, w.childOf(activity, answered))
		worker.reaches(answered)
		worker.kill() // and the workflow engine, which was told nothing, starts it again
		if answer := startChild(w.T, w.childOf(activity, "")).answer(); answer != "charged 10, 990 left" {
			w.Errorf("the second worker is answered %q", answer)
		}
		w.mustHave(activity, 1)

		naive := w.childOf("naive", committed)
		naive.Naive = true
		worker = startChild(w.T, naive)
		worker.reaches(committed)
		worker.kill()
		naive.StopAt = ""
		startChild(w.T, naive).answer()
		w.mustHave("naive", 2)
	})
}

// 12, the first half.
func TestAZombieThatWakesAfterTheTakeoverFinishedDoesNothing(t *testing.T) {
	inEveryWorldOfProcesses(t, func(w *world) {
		zombie := startChild(w.T, w.childOf("guarded", granted))
		zombie.reaches(granted)
		zombie.freeze()
		answer := w.mustCharge("guarded", 10, client.WithLease(shortLease)) // waits for the lease to end
		w.mustHave("guarded", 1)
		zombie.thaw()
		if late := zombie.answer(); late != answer {
			w.Errorf("the zombie is answered %q, want what was done, %q", late, answer)
		}
		w.mustHave("guarded", 1)

		w.aNaiveZombie()
	})
}

// 12, the second half: what the zombie did is there and not committed when the
// takeover looks for it.
func TestAZombieWhoseTransactionIsOpenWhileTheTakeoverLooks(t *testing.T) {
	inEveryWorldOfProcesses(t, func(w *world) {
		zombie := startChild(w.T, w.childOf("guarded", inTransaction))
		zombie.reaches(inTransaction)
		zombie.freeze()
		took := make(chan string, 1)
		ran := make(chan bool, 1)
		go func() {
			answer, err := client.Do(w.Context(), w.keeper, key("guarded"), func(ctx context.Context, _ *client.Attempt) (string, error) {
				ran <- true
				return w.chargeOnce(ctx, "guarded", 10)
			}, client.WithReceipts(w.receipts), client.WithLease(shortLease))
			if err != nil {
				w.Errorf("the takeover: %v", err)
			}
			took <- answer
		}()
		<-ran // it looked, found nothing, and goes on to where the zombie's row is in its way
		zombie.thaw()
		answer, late := <-took, zombie.answer()
		if answer != late || answer == "" {
			w.Errorf("the takeover is answered %q, and the zombie %q", answer, late)
		}
		w.mustHave("guarded", 1)

		w.aNaiveZombie()
	})
}

// aNaiveZombie shows that a lease alone holds nobody: who was stopped goes on where it
// was, after another took over.
func (w *world) aNaiveZombie() {
	w.Helper()
	zombie, err := w.keeper.Begin(w.Context(), client.BeginRequest{Key: key("naive"), Lease: shortLease})
	if err != nil || zombie.Grant == nil {
		w.Fatalf("Begin = %+v, %v", zombie, err)
	}
	naive := func(ctx context.Context, _ *client.Attempt) (string, error) { return charge(ctx, w.db, "naive", 10) }
	if _, err := client.Do(w.Context(), w.keeper, key("naive"), naive, client.WithLease(shortLease)); err != nil {
		w.Fatal(err)
	}
	w.naively("naive", 10) // it was granted the key once, and knows no better
	w.mustHave("naive", 2)
}

// 13.
func TestAServiceThatIsLostBetweenTheEffectAndItsCompleteCostsNothing(t *testing.T) {
	inEveryWorldOfProcesses(t, func(w *world) {
		dies := startChild(w.T, w.childOf("guarded", completing))
		dies.reaches(completing)
		dies.kill()
		w.lose(w.T)
		if answer := w.mustCharge("guarded", 10); answer != "charged 10, 990 left" {
			w.Errorf("the fresh service's caller is answered %q", answer)
		}
		w.mustHave("guarded", 1)

		// Naive: the service alone, and no receipt.
		naive := func(ctx context.Context, _ *client.Attempt) (string, error) { return charge(ctx, w.db, "naive", 10) }
		for range 2 {
			if _, err := client.Do(w.Context(), w.keeper, key("naive"), naive); err != nil {
				w.Fatal(err)
			}
			w.lose(w.T)
		}
		w.mustHave("naive", 2)
	})
}

// TestKill9AtEveryStepLeavesOneCharge kills a process of the business two hundred
// times in all, on both databases and at every level of isolation, and has another
// one ask for the same.
func TestKill9AtEveryStepLeavesOneCharge(t *testing.T) {
	const rounds = 10 // of each step, on each database, at each level: 5 x 4 x 10 = 200
	levels := map[sqlreceipt.Dialect][]sql.IsolationLevel{
		sqlreceipt.SQLite:   {sql.LevelDefault},
		sqlreceipt.Postgres: {sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
	}
	for dialect, levels := range levels {
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s, %s", nameOf(dialect), level), func(t *testing.T) {
				s, keeper := startProcess(t)
				w := &world{T: t, keeper: keeper, service: s, shop: openShop(t, dialect)}
				w.killAtEveryStep(level, rounds)
			})
		}
	}
}

func (w *world) killAtEveryStep(level sql.IsolationLevel, rounds int) {
	steps := []step{granted, inTransaction, committed, completing, completed}
	for round := range rounds {
		var all sync.WaitGroup
		for i, at := range steps {
			request := fmt.Sprintf("%s %d", at, round)
			j := w.childOf(request, at)
			j.Level, j.Amount = level, int64(i)
			dies := startChild(w.T, j)
			dies.reaches(at)
			dies.kill()
			j.StopAt = ""
			all.Go(func() { startChild(w.T, j).answer() }) // waits for the dead one's lease
		}
		all.Wait()
		for _, at := range steps {
			request := fmt.Sprintf("%s %d", at, round)
			w.mustHave(request, 1)
			rec, err := w.keeper.Get(w.Context(), key(request))
			if err != nil || rec.State != oncekeeper.StateCompleted {
				w.Errorf("%s: the record is %+v, %v; want it completed", request, rec, err)
			}
		}
	}
}
