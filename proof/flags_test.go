package proof

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/proof/internal/stage"
)

var (
	storeFlag      = flag.String("proof.store", "", "store to run on, pebble or postgres; empty: both")
	seedFlag       = flag.Uint64("proof.seed", 0, "seed of the first history; 0: drawn from the clock")
	historiesFlag  = flag.Int("proof.histories", 1, "histories for each store; the seeds follow one another")
	togetherFlag   = flag.Int("proof.together", 1, "histories that share servers and faults, each with keys and callers of its own")
	operationsFlag = flag.Int("proof.operations", 1000, "operations of a history, at the least")
	clientsFlag    = flag.Int("proof.clients", 8, "callers of a history")
	spacingFlag    = flag.Int("proof.spacing", 330, "operations between two faults")
	faultsFlag     = flag.String("proof.faults", "all", "faults, by name and with commas between; all, or none")
	forFlag        = flag.Duration("proof.for", 0, "no history is begun after so long; 0: no bound")
	outFlag        = flag.String("proof.out", "", "folder for histories that fail; empty: one that is made")
	patienceFlag   = flag.Duration("proof.patience", 5*time.Minute, "how long the search for an order of one key may take")
	shopsFlag      = flag.Int("proof.shops", 1, "runs of operations with receipts, for each store")
	saveFlag       = flag.Bool("proof.save", false, "save every history, and not only those that fail")
)

func stores() []stage.Store {
	if *storeFlag != "" {
		return []stage.Store{stage.Store(*storeFlag)}
	}
	return []stage.Store{stage.Pebble, stage.Postgres}
}

func seed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return uint64(time.Now().UnixNano())
}

func faults(t *testing.T, store stage.Store) []stage.Fault {
	t.Helper()
	switch *faultsFlag {
	case "all":
		return stage.Faults(store)
	case "none":
		return nil
	}
	var some []stage.Fault
	for name := range strings.SplitSeq(*faultsFlag, ",") {
		some = append(some, stage.Fault(name))
	}
	return some
}
