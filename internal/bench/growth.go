package bench

import (
	"context"
	"fmt"
	"time"
)

// What may grow.
const (
	ByKeys     = "keys"
	ByResponse = "response"
	ByCallers  = "callers"
	ByTenants  = "tenants"
)

// Subject is a service, and what is asked of it at one size of what grows. Its own
// Turns do not count.
type Subject struct {
	Size int
	Config
}

// Grow measures pairs and replays at each size. The sizes take turns as loads do in
// Run, so that they are measured in the same minutes; all their stores are filled
// before, and what compacts behind a filling does so before too, or meets all sizes
// alike.
func Grow(ctx context.Context, by string, turns Turns, subjects []Subject) (Growth, error) {
	g := Growth{By: by, SliceSeconds: turns.Slice.Seconds(), Rounds: turns.Rounds}
	works := make([]*work, len(subjects))
	for i, s := range subjects {
		s.Turns = turns
		if err := s.Validate(); err != nil {
			return g, fmt.Errorf("%d %s: %w", s.Size, by, err)
		}
		works[i] = newWork(s.Config)
	}
	for i, w := range works {
		p, err := w.grown(ctx, subjects[i].Size)
		if err != nil {
			return g, fmt.Errorf("filling the store for %d %s: %w", subjects[i].Size, by, err)
		}
		g.Points = append(g.Points, p)
	}
	for _, pick := range []func(*work) load{(*work).pairs, (*work).replays} {
		loads := make([]load, len(works))
		for i, w := range works {
			loads[i] = pick(w)
		}
		results, err := stage(ctx, turns, loads)
		if err != nil {
			return g, err
		}
		for i, r := range results {
			g.Points[i].Loads = append(g.Points[i].Loads, r)
		}
	}
	for i, s := range subjects {
		// Where it is not known it is 0.
		g.Points[i].Memory, _ = memoryOf(s.ServerPID)
	}
	return g, nil
}

// grown fills the store, and begins what is told of a size.
func (w *work) grown(ctx context.Context, size int) (Point, error) {
	start := time.Now()
	err := w.fill(ctx)
	return Point{
		Size: size, Callers: w.cfg.Callers, Connections: len(w.cfg.Conns), ResponseBytes: w.cfg.ResponseBytes,
		Keys: w.cfg.Keys, Tenants: w.cfg.Tenants, FillSeconds: time.Since(start).Seconds(),
	}, err
}

func (w *work) pairs() load {
	return w.grows(Pairs, func(ctx context.Context) error { return w.pair(ctx, w.keeper) })
}

func (w *work) replays() load { return w.grows(Replays, w.replay) }

func (w *work) grows(name string, turn func(context.Context) error) load {
	return load{name: name, callers: w.cfg.Callers, units: 1, turn: turn, server: w.cfg.ServerPID, faults: w.faults, tried: true}
}
