package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	"github.com/oncekeeper/oncekeeper/proof/internal/stage"
)

// tally counts what histories were made of, for docs/proof.md.
type tally struct {
	store                             stage.Store
	histories, operations, lost, keys int
	least                             int
	verdicts                          map[string]int
	faults                            map[string]int
	began                             time.Time
}

func newTally(store stage.Store) *tally {
	return &tally{store: store, verdicts: map[string]int{}, faults: map[string]int{}, began: time.Now()}
}

// add counts h; its faults where it is the first of those that shared them.
func (s *tally) add(h *history.History, first bool) {
	s.histories++
	s.operations += len(h.Operations)
	s.lost += h.Lost()
	s.keys += len(h.ByKey())
	if s.least == 0 || len(h.Operations) < s.least {
		s.least = len(h.Operations)
	}
	for _, o := range h.Operations {
		if o.Answer != nil {
			s.verdicts[o.Answer.Verdict.String()]++
		}
	}
	for _, f := range h.Faults {
		if first {
			s.faults[f[0]]++
		}
	}
}

func (s *tally) String() string {
	counts := func(of map[string]int) string {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(of)) {
			words = append(words, fmt.Sprintf("%s %d", name, of[name]))
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s: %d histories of %d operations or more, %d operations on %d keys, %d of them with no answer, in %v\nanswers: %s\nfaults: %s",
		s.store, s.histories, s.least, s.operations, s.keys, s.lost, time.Since(s.began).Round(time.Second), counts(s.verdicts), counts(s.faults))
}
