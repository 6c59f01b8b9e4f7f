package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

func TestTwoSweepersWhoChoseTheSameRecordsDeleteEachOnceAndOnlyWhatIsStillGone(t *testing.T) {
	onEachPlan(t, func(t *testing.T, plan Plan) {
		const gone = 30
		b := newBench(t, plan)
		for i := range gone {
			id := fmt.Sprintf("gone %d", i)
			if res := b.apply(testComplete(id, b.granted(t, testBegin(id, "")).Token)); res.Refusal() != nil {
				t.Fatal(res.Refusal())
			}
		}
		long := lastingBegin("long-running", "")
		long.Grant.Lease = 24 * time.Hour
		b.granted(t, long)
		held := testBegin("held", "")
		held.Grant.Hold = true
		b.granted(t, held)
		b.advance(time.Hour - time.Microsecond)
		late := b.granted(t, testBegin("completes", ""))
		b.advance(time.Microsecond) // the instant at which all of them are gone

		sweepers := []*Store{mustOpen(t, b.cfg), mustOpen(t, b.cfg)}
		var chosen sync.WaitGroup
		chosen.Add(len(sweepers))
		goOn := make(chan struct{})
		var all sync.WaitGroup
		swept := make([]int64, len(sweepers))
		for i, s := range sweepers {
			var once sync.Once
			s.beforeDelete = func() {
				once.Do(chosen.Done)
				<-goOn
			}
			all.Go(func() {
				got, err := s.Sweep(context.Background(), storage.SweepQuery{Limit: 1000})
				if err != nil {
					t.Error(err)
				}
				swept[i] = got.Records
			})
		}
		chosen.Wait()
		// One is retaken in the instant of the cut-off, one settled anew, one completes.
		b.granted(t, testBegin("gone 0", "again"))
		if res := b.apply(testComplete("gone 1", b.granted(t, testBegin("gone 1", "again")).Token)); res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
		if res := b.apply(testComplete("completes", late.Token)); res.Refusal() != nil {
			t.Fatal(res.Refusal())
		}
		b.granted(t, testBegin("begins", ""))
		close(goOn)
		all.Wait()

		if sum := swept[0] + swept[1]; sum != gone-2 {
			t.Errorf("%v were counted, and %d deleted", swept, gone-2)
		}
		for id, want := range map[string]oncekeeper.StoredState{
			"gone 0": oncekeeper.StoredPending, "gone 1": oncekeeper.StoredCompleted, "completes": oncekeeper.StoredCompleted,
			"begins": oncekeeper.StoredPending, "long-running": oncekeeper.StoredPending, "held": oncekeeper.StoredPending,
		} {
			snapshot, err := b.Read(t.Context(), testKey(id))
			if err != nil {
				t.Fatal(err)
			}
			if rec := snapshot.Records[0]; rec == nil || rec.State != want {
				t.Errorf("%s is %+v, want state %d", id, rec, want)
			}
		}
		var left int
		if err := connect(t, b.cfg.DSN).QueryRow(t.Context(), `SELECT count(*) FROM oncekeeper_records`).Scan(&left); err != nil || left != 6 {
			t.Errorf("%d records are left, want 6 (%v)", left, err)
		}
		if res := b.apply(testBegin("long-running", "another")); res.Verdict != lifecycle.InProgress {
			t.Errorf("what runs was given to another: %v %v", res.Verdict, res.Err)
		}
	})
}
