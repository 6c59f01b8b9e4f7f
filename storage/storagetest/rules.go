package storagetest

import (
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
)

// rules gives lifecycle's scenarios as checks, each on a key of its own in
// tenant; after, unless nil, is done whenever the clock has moved.
func rules(tenant string, after func(h *hands, tenant string)) []check {
	var all []check
	for _, s := range lifecycletest.Scenarios() {
		all = append(all, check{s.Name, func(h *hands) {
			moment := time.Microsecond
			if h.Flows {
				moment = 10 * time.Second
			}
			s.Play(&lifecycletest.Life{
				T: h, On: subject{h, tenant, after}, Moment: moment,
				Key: oncekeeper.Key{Tenant: tenant, Operation: "rules", ID: s.Name},
			})
		}})
	}
	return all
}

// subject plays a scenario on a store.
type subject struct {
	h      *hands
	tenant string
	after  func(h *hands, tenant string)
}

func (s subject) Apply(cmd lifecycle.Command) (*oncekeeper.KeyRecord, lifecycle.Verdict, oncekeeper.Instant) {
	s.h.Helper()
	res := s.h.apply(cmd)[0]
	s.h.read(cmd.Target())
	return res.Record, res.Verdict, res.Now
}

func (s subject) Advance(d time.Duration) {
	s.h.Helper()
	s.h.Advance(d)
	if s.after != nil {
		s.after(s.h, s.tenant)
	}
}
