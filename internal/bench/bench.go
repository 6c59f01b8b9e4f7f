package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Run measures: all loads with cfg.Callers, and then, where those are more than one,
// with one caller. It takes about Rounds times Slice for each load and each of both,
// beside the filling of the store.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	w := newWork(cfg)
	if err := w.fill(ctx); err != nil {
		return Report{}, fmt.Errorf("filling the store: %w", err)
	}
	probe := w.key(0)
	empty := answersEmptyCalls(ctx, w.service, &pb.Key{Tenant: w.space + "-probe", Operation: probe.Operation, Id: probe.ID})
	report := Report{
		Callers: cfg.Callers, Connections: len(cfg.Conns), ResponseBytes: cfg.ResponseBytes, Keys: cfg.Keys, Tenants: cfg.Tenants,
		SliceSeconds: cfg.Slice.Seconds(), Rounds: cfg.Rounds, BatchItems: BatchItems,
	}
	stages := []int{cfg.Callers, 1}
	if cfg.Callers == 1 {
		stages = stages[:1]
	}
	for _, callers := range stages {
		results, err := stage(ctx, cfg.Turns, w.loads(callers, empty))
		if err != nil {
			return Report{}, err
		}
		if callers == 1 {
			report.One = results
		}
		if callers == cfg.Callers {
			report.Loads = results
		}
	}
	report.Ratios = ratios(report)
	return report, nil
}

// stage gives each load its slices: in every round each has one, and another goes
// first. A slice before the first round is not counted.
func stage(ctx context.Context, turns Turns, loads []load) ([]Result, error) {
	all := make([]*measured, len(loads))
	for i, l := range loads {
		all[i] = &measured{load: l}
		if err := (&measured{load: l}).slice(ctx, min(turns.Slice, 300*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	for round := range turns.Rounds {
		turns.Progress(fmt.Sprintf("round %d of %d, %d callers", round+1, turns.Rounds, loads[0].callers))
		for i := range all {
			if err := all[(round+i)%len(all)].slice(ctx, turns.Slice); err != nil {
				return nil, err
			}
		}
	}
	results := make([]Result, len(all))
	for i, m := range all {
		results[i] = m.result()
	}
	return results, nil
}

// fillers is how many batches fill the store at once, of how many keys.
const (
	fillers   = 8
	fillBatch = 128
)

// fill makes the keys that are there before anything is measured, which are replayed
// later and so are kept for longer.
func (w *work) fill(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	bytes := max(1, min(fillBatch, (1<<20)/(w.cfg.ResponseBytes+1)))
	for from := 0; from < w.cfg.Keys && ctx.Err() == nil; from += bytes {
		n := min(bytes, w.cfg.Keys-from)
		if from%(bytes*100) == 0 {
			w.cfg.Progress(fmt.Sprintf("filling: %d of %d keys", from, w.cfg.Keys))
		}
		group.Go(func() error {
			at := int64(from) - 1
			return w.pairsTogether(ctx, n, filledFor, func() oncekeeper.Key { at++; return w.key(at) })
		})
	}
	w.made.Store(int64(w.cfg.Keys))
	return group.Wait()
}

// filledFor is longer than a run takes.
const filledFor = 24 * time.Hour
