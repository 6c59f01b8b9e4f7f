package proof

import (
	"flag"
	"testing"

	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	"github.com/oncekeeper/oncekeeper/proof/internal/stage"
)

var fileFlag = flag.String("proof.file", "", "a history that was saved, to be judged again")

// TestASavedHistoryIsJudgedAgain judges the file that -proof.file names.
func TestASavedHistoryIsJudgedAgain(t *testing.T) {
	if *fileFlag == "" {
		return
	}
	h, err := history.Load(*fileFlag)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, h, trial{store: stage.Store(h.Store), seed: h.Seed, operations: len(h.Operations)})
}
