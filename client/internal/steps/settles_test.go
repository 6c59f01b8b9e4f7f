package steps_test

import (
	"slices"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// mustSettle has everyone leave, and callers come one after the other to whom
// nothing goes wrong: the key must settle, and no grant is given back. Where it is
// held, an operator releases it.
func (s *search) mustSettle(w world) {
	if w.locked() {
		return // its end is a world of its own
	}
	calm := world{now: w.now, rec: w.rec, row: w.row, effects: w.effects, whose: w.whose, refused: w.refused}
	if s.calm[calm] {
		return
	}
	s.calm[calm] = true
	end, way := calm, ""
	defer func() {
		if fault := recover(); fault != nil {
			v, ok := fault.(*violation)
			if !ok {
				panic(fault)
			}
			panic(&violation{last: s.at, what: v.what + ", though nothing goes wrong any more:\n" + way})
		}
	}()
	for range 5 {
		rec := s.records[end.rec]
		if rec != nil && (rec.State == oncekeeper.StoredCompleted || rec.State == oncekeeper.StoredFailed) {
			return
		}
		if rec != nil && end.row.applied && !rec.AnyFingerprint && int8(rec.Fingerprint[0]) != end.whose {
			return // the record's request is a mismatch, and the receipt's is replayed
		}
		fair := &search{setting: s.setting, service: s.service, seen: map[world]bool{}, naming: true}
		end, way = fair.fairly(end, way)
		if fault := s.broken(end); fault != "" {
			panic(&violation{what: fault})
		}
	}
	panic(&violation{what: "the key is stuck as " + describe(s.records[end.rec])})
}

// fairly has one caller come, to whom nothing goes wrong, and gives the world that
// it leaves.
func (s *search) fairly(w world, way string) (world, string) {
	if rec := s.records[w.rec]; rec != nil {
		if rec.State == oncekeeper.StoredPending && rec.Last == oncekeeper.SettledNot {
			w.now = max(w.now, int8(rec.LeaseEnd))
		}
		if rec.State == oncekeeper.StoredPending && rec.Granted.Hold && !s.reconciles && !w.row.applied {
			if v := s.judge(asked{rec: w.rec, now: w.now, verb: release}); v.Verdict == lifecycle.Resolved {
				w.rec, w.refused = v.rec, false
				way += "  an operator releases it\n"
			}
		}
	}
	fp := int8(1)
	if rec := s.records[w.rec]; rec != nil && !rec.AnyFingerprint {
		fp = int8(rec.Fingerprint[0])
	}
	start := w
	start.callers[0] = caller{fp: fp}
	s.begin(start, 0, "a caller begins")
	at := start
	for n := 0; n < 100 && len(s.reached) > 0; n++ {
		// The first of what may come next is what comes where nothing goes wrong; a
		// function calls InTx, and commits.
		at = s.reached[0].world
		way += "  " + s.reached[0].what + "\n"
		s.reached = nil
		if c := at.callers[0]; c.notRun && !c.ending.Refused {
			panic(&violation{what: "a grant is given back"})
		}
		switch c := at.callers[0]; c.at {
		case gone:
		case running:
			s.runFairly(at)
		case inTx:
			n := at
			n.callers[0].tx = false
			n.commit(c)
			s.returns(n, 0, oncekeeper.SettledComplete, theReceipts, "it commits")
		default:
			s.move(at, 0)
			s.reached = slices.DeleteFunc(s.reached, func(r step) bool { return strings.HasSuffix(r.what, " dies") })
		}
	}
	at.callers[0] = caller{}
	return at, way
}

func (s *search) runFairly(w world) {
	applied, refused := s.claimed(w.row.receipt(), w.callers[0])
	n := w
	switch {
	case applied:
		s.returns(n, 0, oncekeeper.SettledComplete, theReceipts, "it finds the receipt")
	case refused != nil:
		s.returns(n, 0, oncekeeper.SettledRetryable, again, "its claim is refused")
	default:
		n.callers[0].at, n.callers[0].tx = inTx, true
		s.to(n, "it claims the receipt")
	}
}
