package stage

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Strike is what befalls the servers when so many operations were made: one fault, or
// two at once.
type Strike struct {
	At     int
	Faults []Fault
	Seed   uint64
}

// Plan gives what befalls a run of so many operations: each of faults at least once
// where there is room, one for each spacing operations, a third of them together with
// another. A database fails over once at the most.
func Plan(seed uint64, faults []Fault, operations, spacing int) []Strike {
	if len(faults) == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 1<<40))
	var plan []Strike
	var left []Fault
	draw := func() Fault {
		if len(left) == 0 {
			left = slices.Clone(faults)
			random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		f := left[0]
		left = left[1:]
		return f
	}
	for range operations / spacing {
		s := Strike{At: random.IntN(max(1, operations*9/10)), Faults: []Fault{draw()}, Seed: random.Uint64()}
		if random.IntN(3) == 0 {
			s.Faults = append(s.Faults, draw())
		}
		plan = append(plan, s)
	}
	slices.SortFunc(plan, func(a, b Strike) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// Befell is a fault that came to pass, in words too.
type Befell struct {
	Fault Fault
	How   string
}

// Act has what is planned befall the servers as the run gets there, and returns what
// did when the plan is done.
func (s *Stage) Act(ctx context.Context, plan []Strike, made func() int) []Befell {
	var words []Befell
	for _, strike := range plan {
		for made() < strike.At {
			select {
			case <-ctx.Done():
				return words
			case <-time.After(time.Millisecond):
			}
		}
		if ctx.Err() != nil {
			return words
		}
		did := make([]Befell, len(strike.Faults))
		var all sync.WaitGroup
		for i, f := range strike.Faults {
			all.Go(func() {
				did[i] = Befell{f, s.Strike(f, rand.New(rand.NewPCG(strike.Seed, uint64(i))))}
			})
		}
		all.Wait()
		words = append(words, did...)
	}
	return words
}
