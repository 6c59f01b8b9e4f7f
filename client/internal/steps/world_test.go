package steps_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// callers is how many calls there are at most at once, those that died included.
const callers = 3

// world is all there is: a value, so that it can be a key of a map.
type world struct {
	now int8
	rec uint16
	row row
	// effects that are committed, and whose request's.
	effects int8
	whose   int8
	// refused: a caller was told that it failed for good, and nobody has forgotten it.
	refused bool
	// faults, losses and operators that may yet come.
	faults, losses, operators int8
	calls                     int8
	callers                   [callers]caller
}

// row is the receipt, committed.
type row struct {
	there   bool
	fp      int8
	floor   int8
	applied bool
	token   int8
}

type place uint8

const (
	idle place = iota
	lost       // Begin was sent, and its answer was lost
	looking
	asking
	running
	inTx
	closing
	settling
	gone
)

// caller is one call.
type caller struct {
	at   place
	said steps.Said
	call int8
	fp   int8
	// token is of the grant, or of the attempt that holds the key; 0: neither.
	token    int8
	number   int8
	takeover bool
	// tx: a transaction of this call is open, and has the row. It may outlive it.
	tx bool
	// late: the function left something running that will call InTx.
	late bool
	// ran: the function returned, or would have; bare: in an outage.
	ran, bare bool
	// stood: the effect was there before this call began. heard: the function heard
	// that it committed.
	stood, heard bool
	// notRun: the grant is given back, and no function was called.
	notRun bool
	// as and with are what it is to be settled as, original what it gave.
	as, original oncekeeper.Settlement
	with         word
	ending       steps.Ending
	released     int8
}

// compare puts those first that came.
func (c caller) compare(d caller) int {
	return cmp.Or(cmp.Compare(d.at, c.at), cmp.Compare(c.token, d.token), cmp.Compare(c.said, d.said), cmp.Compare(c.fp, d.fp),
		cmp.Compare(c.as, d.as), cmp.Compare(c.original, d.original), cmp.Compare(c.with, d.with), cmp.Compare(c.call, d.call),
		cmp.Compare(c.number, d.number), cmp.Compare(c.released, d.released), cmp.Compare(c.flags(), d.flags()))
}

func (c caller) flags() (n uint16) {
	for i, set := range []bool{c.tx, c.late, c.ran, c.bare, c.stood, c.heard, c.takeover, c.notRun, c.ending.Found, c.ending.Refused, c.ending.Unclosed} {
		if set {
			n |= 1 << i
		}
	}
	return n
}

func (r row) receipt() *receipt.Receipt {
	if !r.there {
		return nil
	}
	out := &receipt.Receipt{Key: worldKey, FingerprintScheme: "raw", Fingerprint: digestOf(r.fp), Floor: int64(r.floor), Token: int64(r.token)}
	if r.applied {
		out.Response = responseOf(theReceipts)
	}
	return out
}

func rowOf(r receipt.Receipt) row {
	return row{there: true, fp: int8(r.Fingerprint[0]), floor: int8(r.Floor), applied: r.Applied(), token: int8(r.Token)}
}

func (c caller) claim() receipt.Claim {
	return receipt.Claim{Key: worldKey, Token: int64(c.token), FingerprintScheme: "raw", Fingerprint: digestOf(c.fp)}
}

// setting is one small world's rules: what may go wrong in it, and which rules it
// is without.
type setting struct {
	name       string
	hold       bool
	attempts   int32
	outage     steps.Outage
	reconciles bool
	// others: calls of another request come too. strangers: a grant is given back by
	// who knows of no receipts, and does not say that it was not run.
	others, strangers bool
	// terse: a function that does not commit fails for good, and leaves nothing.
	terse                     bool
	callers                   int // at most
	faults, losses, operators int8

	without without
}

// without names the rules that are left out.
type without struct {
	claimWaits, claimUnique, claimFloor, claimRequest, bareFloor         bool
	lookTakeover, lookLater, lookHeld, lookBare, lookMismatch            bool
	closeFinal, closeValue, closeRetryable, closeRelease, unrunUncounted bool
	closeWaits, plusOne, noMore, timeoutProves, failedLookProves         bool
	receiptCounts, settleFound, finalClosed, finalKept                   bool
}

// search is one small world being searched.
type search struct {
	setting
	*service
	// seen are the worlds that were reached, by their plain form, and reached is how.
	seen    map[world]bool
	reached []step
	// at is where the search has come to in reached.
	at int32
	// naming: steps are put into words, which no search has time for.
	naming bool
	// calm are the worlds that nobody is left in, from which the key must settle.
	calm map[world]bool
}

// step is how a world was reached.
type step struct {
	world  world
	before int32
	what   string
}

type violation struct {
	what string
	// last of reached is where it was seen.
	last int32
}

func (v *violation) Error() string { return v.what }

func newSearch(s setting) *search {
	return &search{setting: s, service: newService(oncekeeper.Grant{Hold: s.hold, MaxAttempts: s.attempts}), seen: map[world]bool{}, calm: map[world]bool{}}
}

// run gives the first violation, by a shortest way, or nil.
func (s *search) run() (found error) {
	defer func() {
		if fault := recover(); fault != nil {
			v, ok := fault.(*violation)
			if !ok {
				panic(fault)
			}
			found = fmt.Errorf("%s\n%s", v.what, s.way(v.last))
		}
	}()
	s.reached = append(s.reached, step{world: world{now: 1, faults: s.faults, losses: s.losses, operators: s.operators}, before: -1})
	for ; int(s.at) < len(s.reached); s.at++ {
		w := s.reached[s.at].world
		s.next(w)
		s.mustSettle(w)
	}
	return nil
}

// to adds a world that the one before leads to.
func (s *search) to(w world, what string) {
	plain := w.plain()
	if s.seen[plain] {
		return
	}
	s.seen[plain] = true
	s.reached = append(s.reached, step{world: w, before: s.at, what: what})
	if fault := s.broken(w); fault != "" {
		panic(&violation{what: fault, last: int32(len(s.reached) - 1)})
	}
}

// plain is w without what makes no difference to what comes: which caller is which.
func (w world) plain() world {
	slices.SortFunc(w.callers[:], caller.compare)
	return w
}

// say puts a step into words.
func (s *search) say(format string, args ...any) string {
	if !s.naming {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// way gives how the last of reached was, in words: every step is taken again, to
// hear what it says.
func (s *search) way(last int32) string {
	var worlds []world
	for at := last; at >= 0; at = s.reached[at].before {
		worlds = append(worlds, s.reached[at].world)
	}
	slices.Reverse(worlds)
	text := ""
	for i := range worlds[1:] {
		text += "  " + s.name(worlds[i], worlds[i+1]) + "\n"
	}
	return text
}

func (s *search) name(from, to world) string {
	again := &search{setting: s.setting, service: s.service, seen: map[world]bool{}, naming: true}
	func() {
		defer func() {
			if fault := recover(); fault != nil {
				if _, ok := fault.(*violation); !ok {
					panic(fault)
				}
			}
		}()
		again.next(from)
	}()
	for _, step := range again.reached {
		if step.world == to {
			return step.what
		}
	}
	return "?"
}

// broken gives the invariant that w breaks.
func (s *search) broken(w world) string {
	rec := s.records[w.rec]
	kept := keptBy(rec)
	switch {
	case w.effects > 1:
		return "it happened twice"
	case w.effects > 0 && w.refused:
		return "a caller was told that it failed for good, and it happened"
	case rec != nil && rec.State == oncekeeper.StoredFailed && w.effects > 0:
		return "that it failed is kept beside its effect"
	case rec != nil && rec.State == oncekeeper.StoredCompleted && kept == theReceipts && w.effects == 0:
		return "a response is kept, and nothing happened"
	case rec != nil && rec.State == oncekeeper.StoredCompleted && kept == value && w.effects > 0:
		return "a value without an effect is kept beside an effect"
	default:
		return ""
	}
}

// answer ends a call with what its caller is told.
func (s *search) answer(w world, i int, told word, what string) {
	c := &w.callers[i]
	fault := ""
	if c.heard && told != theReceipts {
		fault = "a caller whose function heard of its commit was not given the response"
	}
	switch told {
	case theReceipts:
		if w.effects == 0 || w.whose != c.fp {
			fault = "a caller was given a response, and what it asked for did not happen"
		}
	case refusal, exhausted:
		w.refused = w.refused || !c.bare
	case mismatch:
		if w.effects > 0 && w.whose == c.fp {
			fault = "a caller whose request happened was told that the key is another's"
		}
	}
	c.leave()
	what = s.say("%s; caller %d is told %s", what, i+1, told)
	if fault != "" {
		s.fail(w, what, fault)
	}
	s.to(w, what)
}

// fail ends the search at w.
func (s *search) fail(w world, what, fault string) {
	s.reached = append(s.reached, step{world: w, before: s.at, what: what})
	panic(&violation{what: fault, last: int32(len(s.reached) - 1)})
}

// leave forgets all of a call but the transaction that it left open.
func (c *caller) leave() {
	if c.tx || c.late {
		*c = caller{at: gone, tx: c.tx, late: c.late, token: c.token, fp: c.fp, bare: c.bare}
	} else {
		*c = caller{at: gone}
	}
}

// locked says whether a transaction has the row.
func (w world) locked() bool {
	for _, c := range w.callers {
		if c.tx {
			return true
		}
	}
	return false
}

// next gives all that may happen next.
func (s *search) next(w world) {
	for i := range w.callers {
		if w.callers[i].at == idle && i < s.setting.callers {
			s.arrive(w, i)
			break
		}
	}
	for i := range w.callers {
		s.move(w, i)
	}
	s.world(w)
}

// world is what nobody does.
func (s *search) world(w world) {
	rec := s.records[w.rec]
	if rec != nil && rec.State == oncekeeper.StoredReleased && rec.Expires > oncekeeper.Instant(w.now) && rec.Expires < 100 {
		n := w
		n.now = int8(rec.Expires)
		s.to(n, s.say("the record expires"))
	}
	if w.losses > 0 && w.rec != 0 {
		n := w
		n.losses--
		n.rec, n.refused = 0, false
		n.now = max(n.now, int8(rec.Token)+1) // a new service's clock is no earlier
		s.to(n, s.say("the service loses its records"))
	}
	if w.operators > 0 && w.rec != 0 {
		for _, verb := range []verb{release, forget} {
			v := s.judge(asked{rec: w.rec, now: w.now, verb: verb})
			if v.Verdict == lifecycle.Resolved || v.Verdict == lifecycle.Deleted {
				n := w
				n.operators--
				n.rec, n.refused = v.rec, false
				s.to(n, s.say("an operator: %v", v.Verdict))
			}
		}
	}
	for i, c := range w.callers {
		if c.late && (!w.locked() || s.without.claimWaits) {
			n := w
			late := &n.callers[i]
			late.late = false
			if applied, refused := s.claimed(w.row.receipt(), c); applied || refused != nil {
				if c.at == gone {
					late.leave()
				}
				s.to(n, s.say("what caller %d left running claims the receipt, in vain", i+1))
			} else {
				late.tx = true
				s.to(n, s.say("what caller %d left running claims the receipt", i+1))
			}
		}
		if c.tx && c.at != inTx {
			n := w
			n.callers[i].tx = false
			if c.at == gone {
				n.callers[i].leave()
			}
			s.to(n, s.say("the transaction that caller %d left open is rolled back", i+1))
			n.commit(c)
			s.to(n, s.say("the transaction that caller %d left open commits", i+1))
		}
	}
}

// commit applies the operation.
func (w *world) commit(c caller) {
	w.row = row{there: true, fp: c.fp, floor: w.row.floor, applied: true, token: c.token}
	w.effects++
	w.whose = c.fp
}
