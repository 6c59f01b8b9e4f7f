package proof

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/proof/internal/drive"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	"github.com/oncekeeper/oncekeeper/proof/internal/invariant"
	"github.com/oncekeeper/oncekeeper/proof/internal/model"
	"github.com/oncekeeper/oncekeeper/proof/internal/stage"
)

// trial is one history to be.
type trial struct {
	store      stage.Store
	seed       uint64
	operations int
	faults     []stage.Fault
	// spacing is how many operations lie between two faults.
	spacing int
	plant   string
	// together is how many histories share the servers, and what befalls them.
	together int
}

const (
	keys     = 4
	perKey   = 100
	noAnswer = 30 * time.Second
	bounding = 5 * time.Minute
)

// run gives the histories of a trial on a stage of its own.
func run(t *testing.T, tr trial) []*history.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bounding)
	defer cancel()
	s := stage.New(t, stage.Config{
		Store: tr.store, Standby: slices.Contains(tr.faults, stage.Failover), Steps: slices.Contains(tr.faults, stage.Step), Plant: tr.plant,
		DialOptions: []grpc.DialOption{grpc.WithStatsHandler(drive.Departures{}), grpc.WithDisableRetry()},
	})
	over := make(chan struct{})
	busy := func() bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	}
	var runs []*drive.Run
	for i := range tr.together {
		seed := tr.seed + uint64(i)
		runs = append(runs, drive.New(drive.Config{
			Seed: seed, Tenant: fmt.Sprintf("run-%d", seed), Operations: tr.operations, Busy: busy, Clients: *clientsFlag, Keys: keys, PerKey: perKey,
			Conns: s.Conns(), Bounds: s.Bounds, Patience: noAnswer,
		}))
	}
	var befell []stage.Befell
	go func() {
		defer close(over)
		befell = s.Act(ctx, stage.Plan(tr.seed, tr.faults, tr.operations, tr.spacing), runs[0].Made)
	}()
	var all sync.WaitGroup
	for _, r := range runs {
		all.Go(func() { r.Drive(ctx) })
	}
	all.Wait()
	<-over
	var done []*history.History
	for _, r := range runs {
		h, err := r.Finish(ctx, s.Killed)
		if err != nil {
			t.Fatalf("%v\nfaults: %q\n%s", err, befell, tr.again())
		}
		h.Store = string(tr.store)
		for _, b := range befell {
			h.Faults = append(h.Faults, [2]string{string(b.Fault), b.How})
		}
		done = append(done, h)
	}
	s.Stop()
	return done
}

// again is how to run the trial once more.
func (tr trial) again() string {
	names := "none"
	for i, f := range tr.faults {
		if i == 0 {
			names = string(f)
			continue
		}
		names += "," + string(f)
	}
	return fmt.Sprintf("run it again with: go test ./proof -run TestEveryHistoryIsLinearizable -proof.store=%s -proof.seed=%d -proof.operations=%d -proof.together=%d -proof.clients=%d -proof.spacing=%d -proof.faults=%s",
		tr.store, tr.seed, tr.operations, tr.together, *clientsFlag, tr.spacing, names)
}

// judge checks every key of h.
func judge(t *testing.T, h *history.History, tr trial) (ok bool) {
	t.Helper()
	ok = true
	for _, ops := range h.ByKey() {
		for _, b := range invariant.Check(ops) {
			ok = false
			t.Errorf("%s of seed %d on %s, see %s: broken: %s\nfaults: %q\n%s", ops[0].Key, h.Seed, tr.store, keep(t, h, tr), b, h.Faults, tr.again())
		}
		c := model.Check(ops, *patienceFlag)
		if c.Result == model.Linearizable {
			continue
		}
		ok = false
		where := keep(t, h, tr)
		drawn := filepath.Join(where, c.Key+".html")
		if err := c.Draw(drawn); err != nil {
			t.Error(err)
		}
		t.Errorf("%s of seed %d on %s: %s, see %s\n%sfaults: %q\n%s", c.Key, h.Seed, tr.store, c.Result, drawn, c.Why(), h.Faults, tr.again())
	}
	return ok
}

// keep saves h, and gives the folder.
func keep(t *testing.T, h *history.History, tr trial) string {
	t.Helper()
	dir := *outFlag
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "oncekeeper-proof")
	}
	dir = filepath.Join(dir, fmt.Sprintf("%s-%d", tr.store, h.Seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Save(filepath.Join(dir, "history.json")); err != nil {
		t.Error(err)
	}
	return dir
}

func TestEveryHistoryIsLinearizable(t *testing.T) {
	first := seed()
	for _, store := range stores() {
		t.Run(string(store), func(t *testing.T) {
			sum := newTally(store)
			began := time.Now()
			for i := 0; i < *historiesFlag; i += *togetherFlag {
				if *forFlag > 0 && time.Since(began) > *forFlag {
					break
				}
				tr := trial{
					store: store, seed: first + uint64(i), operations: *operationsFlag, faults: faults(t, store), spacing: *spacingFlag,
					together: min(*togetherFlag, *historiesFlag-i),
				}
				t.Run(fmt.Sprint(tr.seed), func(t *testing.T) {
					for i, h := range run(t, tr) {
						if *saveFlag {
							keep(t, h, tr)
						}
						sum.add(h, i == 0)
						checking := time.Now()
						judge(t, h, tr)
						t.Logf("%d operations, %d lost, %d faults in %v, checked in %v",
							len(h.Operations), h.Lost(), len(h.Faults), h.Ended.Sub(h.Began).Round(time.Millisecond), time.Since(checking).Round(time.Millisecond))
					}
				})
			}
			t.Log(sum)
		})
	}
}
