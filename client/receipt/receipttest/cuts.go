package receipttest

import (
	"fmt"
	"testing"

	"github.com/oncekeeper/oncekeeper"
)

// testCuts breaks the connection at each request of an attempt in turn, before and
// behind it. Whatever the attempt then says must be so; and as the database is there
// to be asked, it must know.
func testCuts(t *testing.T, b Backend) {
	for _, behind := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "behind"}[behind], func(t *testing.T) {
			db, cutter := b.OpenCut(t)
			h := grip(t, db)
			answered, lost := 0, 0
			for nth, more := 0, true; more; nth++ {
				id := fmt.Sprintf("cut at %d", nth)
				cutter.Cut(nth, behind)
				got, err, p := h.apply(claimOf(id, 1), "first")
				more = cutter.Cuts() > 0
				cutter.Cut(-1, false)

				want := "first"
				switch {
				case err == nil:
					answered++
					h.wantAnswer(got, err, "first")
					h.wantEffects(id, 1)
					h.wantApplied(p, "first")
				case oncekeeper.IsRolledBack(err):
					lost++
					want = "second"
					h.wantNothing(id)
					h.wantApplied(p, none)
					if err := p.Take(); err != nil {
						h.Errorf("the attempt cannot try again: %v", err)
					}
				default:
					h.Errorf("%s: it does not know: %v", id, err)
				}
				got, err, _ = h.apply(claimOf(id, 2), "second")
				h.wantAnswer(got, err, want)
				h.wantEffects(id, 1)
				if h.Failed() {
					h.Fatalf("this was %s", id)
				}
			}
			// One ends without a cut; in the function, or before the commit, one must fail.
			if answered < 2 || lost == 0 {
				h.Errorf("%d were answered and %d left nothing: the cuts missed", answered, lost)
			}
		})
	}
}
