package proof

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	"github.com/oncekeeper/oncekeeper/proof/internal/invariant"
	"github.com/oncekeeper/oncekeeper/proof/internal/model"
	"github.com/oncekeeper/oncekeeper/proof/internal/plant"
	"github.com/oncekeeper/oncekeeper/proof/internal/stage"
)

// plantedFaults are what a rule's absence shows under: nothing, where none is named.
var plantedFaults = map[string][]stage.Fault{
	plant.AckSynced:  {stage.Kill}, // with the process goes what was not written
	plant.ReadSynced: {stage.Kill},
}

// toFind is how long a rule that is left out may stay unfound.
const toFind = time.Minute

func TestEachRuleThatIsLeftOutIsFound(t *testing.T) {
	stage.Build(t)
	for _, rule := range plant.Rules() {
		t.Run(rule, func(t *testing.T) {
			began := time.Now()
			first := seed()
			operations := 0
			for i := uint64(0); ; i++ {
				tr := trial{store: stage.Pebble, seed: first + i, operations: 1000, faults: plantedFaults[rule], spacing: 200, plant: rule, together: 1}
				for _, h := range run(t, tr) {
					operations += len(h.Operations)
					if found := firstFault(h); found != "" {
						t.Logf("found after %v and %d operations: %s", time.Since(began).Round(time.Millisecond), operations, found)
						return
					}
				}
				if time.Since(began) > toFind {
					t.Fatalf("not found in %d operations and %v, from seed %d on", operations, toFind, first)
				}
			}
		})
	}
}

// firstFault gives what is wrong with h, in words; nothing where nothing is. A search
// that was not decided has found nothing.
func firstFault(h *history.History) string {
	for _, ops := range h.ByKey() {
		broken := invariant.Check(ops)
		if c := model.Check(ops, *patienceFlag); c.Result == model.Illegal {
			text := fmt.Sprintf("%s is %s", c.Key, c.Result)
			for _, b := range broken {
				text += "; broken: " + b.Invariant
			}
			return text
		}
		for _, b := range broken {
			return fmt.Sprintf("%s, which the model does not find: %s", b, ops[0].Key)
		}
	}
	return ""
}
