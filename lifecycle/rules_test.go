package lifecycle_test

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
)

// start is when a test's clock stands at first.
const start oncekeeper.Instant = 1_700_000_000_000_000

var key = oncekeeper.Key{Tenant: "shop", Operation: "pay.Payments/Charge", ID: "k"}

// pure keeps one record by the pure function alone, on a clock that stands still.
type pure struct {
	rec   *oncekeeper.KeyRecord
	now   oncekeeper.Instant
	sweep bool
}

func (p *pure) Apply(cmd lifecycle.Command) (*oncekeeper.KeyRecord, lifecycle.Verdict, oncekeeper.Instant) {
	rec, verdict := lifecycle.Apply(p.rec, cmd, p.now)
	p.rec = rec
	return rec, verdict, p.now
}

func (p *pure) Advance(d time.Duration) {
	p.now = p.now.Add(d)
	if p.sweep && p.rec != nil && lifecycle.Gone(p.rec, p.now) {
		p.rec = nil
	}
}

func TestTheRulesOfARecordsLife(t *testing.T) {
	for _, s := range lifecycletest.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			s.Play(&lifecycletest.Life{T: t, On: &pure{now: start}, Key: key, Moment: time.Microsecond})
		})
	}
}

func TestASweepChangesNoRule(t *testing.T) {
	for _, s := range lifecycletest.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			s.Play(&lifecycletest.Life{T: t, On: &pure{now: start, sweep: true}, Key: key, Moment: time.Microsecond})
		})
	}
}
