package proof

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/proof/internal/drive"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
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
}

const (
	clients   = 8
	keys      = 4
	perKey    = 100
	noAnswer  = 30 * time.Second
	bounding  = 5 * time.Minute
	faultEach = 330
)

// run gives the history of a trial on a stage of its own.
func run(t *testing.T, tr trial) *history.History {
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
	r := drive.New(drive.Config{
		Seed: tr.seed, Tenant: fmt.Sprintf("run-%d", tr.seed), Operations: tr.operations, Busy: busy, Clients: clients, Keys: keys, PerKey: perKey,
		Conns: s.Conns(), Bounds: s.Bounds, Patience: noAnswer,
	})
	var befell []stage.Befell
	go func() {
		defer close(over)
		befell = s.Act(ctx, stage.Plan(tr.seed, tr.faults, tr.operations, tr.spacing), r.Made)
	}()
	r.Drive(ctx)
	<-over
	h, err := r.Finish(ctx, s.Killed)
	if err != nil {
		t.Fatalf("%v\nfaults: %q\n%s", err, befell, tr.again())
	}
	s.Stop()
	h.Store = string(tr.store)
	for _, b := range befell {
		h.Faults = append(h.Faults, [2]string{string(b.Fault), b.How})
	}
	return h
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
	return fmt.Sprintf("run it again with: go test ./proof -run TestEveryHistoryIsLinearizable -proof.store=%s -proof.seed=%d -proof.operations=%d -proof.faults=%s",
		tr.store, tr.seed, tr.operations, names)
}

// judge checks every key of h.
func judge(t *testing.T, h *history.History, tr trial) (ok bool) {
	t.Helper()
	ok = true
	for _, ops := range h.ByKey() {
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
		t.Errorf("%s of seed %d on %s: %s, see %s\n%sfaults: %q\n%s", c.Key, tr.seed, tr.store, c.Result, drawn, c.Why(), h.Faults, tr.again())
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
	dir = filepath.Join(dir, fmt.Sprintf("%s-%d", tr.store, tr.seed))
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
			began := time.Now()
			for i := range *historiesFlag {
				if *forFlag > 0 && time.Since(began) > *forFlag {
					break
				}
				tr := trial{store: store, seed: first + uint64(i), operations: *operationsFlag, faults: faults(t, store), spacing: faultEach}
				t.Run(fmt.Sprint(tr.seed), func(t *testing.T) {
					h := run(t, tr)
					if *saveFlag {
						keep(t, h, tr)
					}
					checking := time.Now()
					judge(t, h, tr)
					t.Logf("%d operations, %d lost, %d faults in %v, checked in %v", len(h.Operations), h.Lost(), len(h.Faults), h.Ended.Sub(h.Began), time.Since(checking))
				})
			}
		})
	}
}
