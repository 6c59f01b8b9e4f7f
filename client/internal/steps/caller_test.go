package steps_test

import (
	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// arrive has a call come, of this request or of another, while the lease runs or
// when it is over: nothing else asks the time.
func (s *search) arrive(w world, i int) {
	for fp := int8(1); fp <= 2; fp++ {
		if fp == 2 && !s.others {
			break
		}
		n := w
		n.callers[i] = caller{fp: fp}
		s.begin(n, i, s.say("caller %d begins", i+1))
		if rec := s.records[w.rec]; rec != nil && rec.State == oncekeeper.StoredPending && rec.Last == oncekeeper.SettledNot && w.now < int8(rec.LeaseEnd) {
			n.now = int8(rec.LeaseEnd)
			s.begin(n, i, s.say("the lease ends; caller %d begins", i+1))
		}
	}
}

// begin asks the service. A call that is not asked again needs no call id.
func (s *search) begin(w world, i int, what string) {
	c := &w.callers[i]
	c.stood = w.effects > 0 && w.whose == c.fp
	v := s.judge(asked{rec: w.rec, now: w.now, verb: begin, fp: c.fp})
	n := w
	n.rec = v.rec
	s.begun(n, i, v.Verdict, what)
	if w.faults == 0 {
		return
	}
	w.faults--
	if s.outage != steps.Closed {
		s.down(w, i, s.say("%s, and the service does not get it", what))
		n := w
		n.rec = v.rec
		s.down(n, i, s.say("%s, and the service does not answer", what))
	}
	w.calls++
	c.at, c.call = lost, w.calls
	w.rec = s.judge(asked{rec: w.rec, now: w.now, verb: begin, call: c.call, fp: c.fp}).rec
	s.to(w, s.say("%s, and its answer is lost", what))
}

// begun is what a call does that was answered.
func (s *search) begun(w world, i int, v lifecycle.Verdict, what string) {
	c := &w.callers[i]
	rec := s.records[w.rec]
	c.token, c.number, c.takeover = 0, 0, false
	switch v {
	case lifecycle.Granted:
		c.said, c.token, c.number, c.takeover = steps.Granted, int8(rec.Token), int8(rec.Attempt), rec.Takeover
	case lifecycle.Unresolved:
		c.said, c.token = steps.Unresolved, int8(rec.Token)
		if c.released == c.token {
			c.said = steps.Replayed
		}
	case lifecycle.Mismatch:
		c.said = steps.Mismatch
	default:
		c.said = steps.Replayed
	}
	s.first(w, i, v, what)
}

func (s *search) down(w world, i int, what string) {
	c := &w.callers[i]
	c.said, c.bare = steps.Down, true
	c.token = 0
	s.first(w, i, 0, what)
}

func (s *search) asked(c caller) steps.Asked {
	return steps.Asked{Said: c.said, Number: int32(c.number), Takeover: c.takeover, Outage: s.outage, Receipts: true, Reconciles: s.reconciles}
}

func (s *search) first(w world, i int, v lifecycle.Verdict, what string) {
	w.callers[i].call = 0
	c := w.callers[i]
	step := steps.First(s.asked(c))
	if step == steps.Look && s.unlooked(c) {
		step = steps.AfterLook(s.asked(c), steps.Nothing)
	}
	s.follow(w, i, step, v, what)
}

// unlooked says whether a look is left out.
func (s *search) unlooked(c caller) bool {
	switch c.said {
	case steps.Granted:
		return c.takeover && s.without.lookTakeover || !c.takeover && s.without.lookLater
	case steps.Unresolved:
		return s.without.lookHeld
	case steps.Down:
		return s.without.lookBare
	case steps.Mismatch:
		return s.without.lookMismatch
	default:
		return false
	}
}

// plain is what a caller is told by what Begin said.
func (s *search) plain(w world, v lifecycle.Verdict) word {
	rec := s.records[w.rec]
	switch v {
	case lifecycle.Replayed:
		return keptBy(rec)
	case lifecycle.Unresolved:
		return unresolved
	case lifecycle.Mismatch:
		return mismatch
	default:
		return comeBack
	}
}

// follow does a step.
func (s *search) follow(w world, i int, step steps.Step, v lifecycle.Verdict, what string) {
	c := &w.callers[i]
	to := func(at place) {
		c.at = at
		s.to(w, what)
	}
	end := func(as oncekeeper.Settlement, with word) {
		c.as, c.original, c.with, c.number, c.takeover, c.stood = as, as, with, 0, false, false
		to(closing)
	}
	// A grant that is given back was not run; a held attempt that is released may have.
	c.notRun = c.said == steps.Granted && (step == steps.Unavailable || step == steps.Refuse)
	switch step {
	case steps.Answer:
		if c.said == steps.Unresolved {
			s.answer(w, i, unresolved, what)
			return
		}
		s.answer(w, i, s.plain(w, v), what)
	case steps.Look:
		to(looking)
	case steps.Ask:
		to(asking)
	case steps.Run, steps.RunBare, steps.RunOpen:
		if c.stood && (c.bare || c.takeover || c.number > 1) {
			s.fail(w, what, "a function was run again, whose effect was there before")
		}
		c.ran, c.number, c.takeover, c.stood, c.at = true, 0, false, false, running
		s.to(w, what)
		if !s.terse {
			late := w
			late.callers[i].late = true
			s.returns(late, i, oncekeeper.SettledFinal, refusal, s.say("%s; its function leaves something running", what))
		}
		for _, as := range s.outcomes() {
			s.returns(w, i, as, given[as], s.say("%s; its function does nothing", what))
		}
	case steps.Replay:
		s.answer(w, i, theReceipts, what)
	case steps.CompleteFound:
		c.as, c.original, c.with = oncekeeper.SettledComplete, oncekeeper.SettledComplete, theReceipts
		c.ending = steps.Ending{As: c.as, Found: true}
		if s.without.settleFound {
			s.answer(w, i, theReceipts, what)
			return
		}
		to(settling)
	case steps.CompleteTold:
		end(oncekeeper.SettledComplete, told)
	case steps.Release, steps.Unavailable:
		if step == steps.Unavailable && c.said != steps.Granted {
			s.answer(w, i, comeBack, what)
			return
		}
		end(oncekeeper.SettledRetryable, again)
	case steps.Unknown:
		c.as, c.original, c.with = oncekeeper.SettledUnknown, oncekeeper.SettledUnknown, dontKnow
		c.ending = steps.Ending{As: c.as}
		to(settling)
	case steps.Refuse:
		if c.said != steps.Granted {
			s.answer(w, i, mismatch, what)
			return
		}
		c.as, c.original, c.with = oncekeeper.SettledRetryable, oncekeeper.SettledRetryable, again
		c.ending = steps.AfterClose(c.as, steps.Anothers)
		to(settling)
	}
}

// move has a call go on by one step, or die.
func (s *search) move(w world, i int) {
	c := w.callers[i]
	if c.at == idle || c.at == gone {
		return
	}
	dead := w
	dead.callers[i].leave()
	s.to(dead, s.say("caller %d dies", i+1))
	switch c.at {
	case lost:
		s.lost(w, i)
	case looking:
		found := steps.Found(w.row.receipt(), nil, c.claim())
		if c.said == steps.Mismatch {
			found = steps.Surely(found, w.row.receipt(), c.claim())
		}
		s.looked(w, i, found, "caller %d looks", i+1)
		if w.faults > 0 {
			n := w
			n.faults--
			found := steps.Failed
			if s.without.failedLookProves {
				found = steps.Nothing
			}
			s.looked(n, i, found, "caller %d looks, and gets no answer", i+1)
		}
	case asking:
		s.ask(w, i)
	case running:
		s.runs(w, i)
	case inTx:
		s.inTx(w, i)
	case closing:
		s.close(w, i)
	case settling:
		s.settle(w, i)
	}
}

// lost is a call whose answer was lost: asked for again, and run or given back.
func (s *search) lost(w world, i int) {
	c := w.callers[i]
	v := s.judge(asked{rec: w.rec, now: w.now, verb: begin, call: c.call, fp: c.fp})
	n := w
	n.rec = v.rec
	if v.Verdict == lifecycle.AlreadySettled {
		s.answer(n, i, comeBack, s.say("caller %d asks again", i+1))
		return
	}
	s.begun(n, i, v.Verdict, s.say("caller %d asks again", i+1))
	if v.Verdict != lifecycle.Granted {
		return
	}
	b := &n.callers[i]
	rec := s.records[n.rec]
	*b = caller{at: closing, said: steps.Granted, fp: c.fp, token: int8(rec.Token), notRun: true,
		as: oncekeeper.SettledRetryable, original: oncekeeper.SettledRetryable, with: again}
	s.to(n, s.say("caller %d left, and gives back what it was granted", i+1))
}

func (s *search) looked(w world, i int, found steps.Finding, what string, args ...any) {
	c := w.callers[i]
	v := lifecycle.Verdict(0)
	if c.said == steps.Mismatch {
		v = lifecycle.Mismatch
	}
	s.follow(w, i, steps.AfterLook(s.asked(c), found), v, s.say(what, args...))
}

// ask asks a reconciler that knows what is committed, and no more.
func (s *search) ask(w world, i int) {
	c := w.callers[i]
	found := steps.DidNotHappen
	if w.effects > 0 {
		found = steps.Happened
	}
	s.follow(w, i, steps.AfterAsk(c.said, found), 0, s.say("caller %d asks whether it happened", i+1))
	s.follow(w, i, steps.AfterAsk(c.said, steps.CannotTell), 0, s.say("caller %d asks whether it happened, and nobody can tell", i+1))
}

// returns has the function return.
func (s *search) returns(w world, i int, as oncekeeper.Settlement, with word, what string) {
	c := &w.callers[i]
	c.as, c.original, c.with = as, as, with
	switch {
	case with == theReceipts && !s.without.receiptCounts:
		c.as, c.original = oncekeeper.SettledComplete, oncekeeper.SettledComplete
		c.ending = steps.Ending{As: c.as, Found: true}
		c.at = settling
	case !s.closes(*c):
		c.ending = steps.Ending{As: as}
		c.at = settling
	default:
		c.at = closing
	}
	if c.bare {
		// Nothing is closed, and nothing settled.
		reply := with
		if c.ending.Found {
			reply = theReceipts
		}
		s.answer(w, i, reply, what)
		return
	}
	s.to(w, s.say("%s, and returns %s", what, with))
}

// closes says whether the receipt is closed before c is settled.
func (s *search) closes(c caller) bool {
	switch {
	case !steps.Closes(c.as, c.notRun),
		c.as == oncekeeper.SettledFinal && s.without.closeFinal,
		c.as == oncekeeper.SettledComplete && s.without.closeValue,
		c.as == oncekeeper.SettledRetryable && c.ran && s.without.closeRetryable,
		c.as == oncekeeper.SettledRetryable && c.said == steps.Unresolved && s.without.closeRelease:
		return false
	default:
		return true
	}
}

// runs is a function that calls InTx.
func (s *search) runs(w world, i int) {
	c := w.callers[i]
	if w.locked() && !s.without.claimWaits {
		return
	}
	applied, refused := s.claimed(w.row.receipt(), c)
	n := w
	switch {
	case applied:
		s.returns(n, i, oncekeeper.SettledComplete, theReceipts, s.say("caller %d's function finds the receipt", i+1))
	case refused != nil:
		s.returns(n, i, oncekeeper.SettledRetryable, again, s.say("caller %d's claim is refused", i+1))
	default:
		n.callers[i].at, n.callers[i].tx = inTx, true
		s.to(n, s.say("caller %d's function claims the receipt", i+1))
	}
}

// claimed is receipt.Claimed, but for what is left out of it.
func (s *search) claimed(r *receipt.Receipt, c caller) (applied bool, refused error) {
	claim := c.claim()
	if r != nil {
		plain := *r
		if s.without.claimFloor || s.without.bareFloor && c.bare {
			plain.Floor = 0
		}
		if s.without.claimUnique {
			plain.Response = nil
		}
		if s.without.claimRequest {
			plain.Fingerprint = claim.Fingerprint
		}
		r = &plain
	}
	return receipt.Claimed(r, claim)
}

// outcomes are what a function may end as, and given what it gives then.
var (
	outcomes = []oncekeeper.Settlement{oncekeeper.SettledFinal, oncekeeper.SettledRetryable, oncekeeper.SettledComplete, oncekeeper.SettledUnknown}
	given    = map[oncekeeper.Settlement]word{
		oncekeeper.SettledComplete: value, oncekeeper.SettledFinal: refusal,
		oncekeeper.SettledRetryable: again, oncekeeper.SettledUnknown: dontKnow,
	}
)

func (s *search) outcomes() []oncekeeper.Settlement {
	if s.terse {
		return outcomes[:1]
	}
	return outcomes
}

// inTx is a function inside its transaction.
func (s *search) inTx(w world, i int) {
	c := w.callers[i]
	committed := w
	committed.callers[i].tx = false
	committed.commit(c)
	heard := committed
	heard.callers[i].heard = true
	s.returns(heard, i, oncekeeper.SettledComplete, theReceipts, s.say("caller %d commits", i+1))
	if s.without.receiptCounts {
		s.returns(heard, i, oncekeeper.SettledFinal, refusal, s.say("caller %d commits", i+1))
	}
	back := w
	back.callers[i].tx = false
	for _, as := range []oncekeeper.Settlement{oncekeeper.SettledRetryable, oncekeeper.SettledFinal} {
		s.returns(back, i, as, given[as], s.say("caller %d rolls back", i+1))
	}
	for _, as := range s.outcomes() {
		if w.faults > 0 {
			n := committed
			n.faults--
			s.returns(n, i, as, given[as], s.say("caller %d commits, and does not hear of it", i+1))
		}
		if as != oncekeeper.SettledUnknown && !s.terse { // then it might as well be dead
			s.returns(w, i, as, given[as], s.say("caller %d leaves its transaction open", i+1))
		}
	}
}

// close closes the receipt.
func (s *search) close(w world, i int) {
	c := w.callers[i]
	if !s.closes(c) {
		n := w
		n.callers[i].ending = steps.Ending{As: c.as}
		n.callers[i].at = settling
		s.to(n, s.say("caller %d does not close", i+1))
		return
	}
	failed := steps.Failed
	if s.without.timeoutProves {
		failed = steps.Nothing
	}
	if w.locked() && !s.without.closeWaits {
		s.closed(w, i, failed, "caller %d closes, and gives up waiting", i+1)
		return
	}
	n := w
	floor := steps.Floor(int64(c.token))
	if s.without.plusOne {
		floor = int64(c.token)
	}
	if s.without.noMore {
		floor++
	}
	n.row = rowOf(receipt.Closed(w.row.receipt(), c.claim(), floor))
	s.closed(n, i, steps.FoundClosed(n.row.receipt(), nil, c.claim()), "caller %d closes", i+1)
	if w.faults > 0 {
		n.faults--
		s.closed(n, i, failed, "caller %d closes, and does not hear of it", i+1)
		n := w
		n.faults--
		s.closed(n, i, failed, "caller %d closes, and cannot", i+1)
	}
}

func (s *search) closed(w world, i int, found steps.Finding, what string, args ...any) {
	c := &w.callers[i]
	c.ending = steps.AfterClose(c.as, found)
	c.at = settling
	switch {
	case c.ending.Found:
		c.with = theReceipts
	case c.ending.Refused:
		c.with = again
	case c.ending.Unclosed:
		c.with = dontKnow
	}
	c.as = c.ending.As
	if c.said == steps.Unresolved && (c.ending.Refused || c.ending.Unclosed) {
		reply := comeBack
		if c.ending.Refused {
			reply = mismatch
		}
		s.answer(w, i, reply, s.say(what, args...))
		return
	}
	s.to(w, s.say(what, args...))
}

// settle tells the service.
func (s *search) settle(w world, i int) {
	c := w.callers[i]
	v := s.judge(asked{rec: w.rec, now: w.now, verb: settle, token: c.token, as: c.as, with: c.with, short: c.ending.Refused, notRun: c.notRun && !s.without.unrunUncounted && !s.strangers})
	n := w
	n.rec = v.rec
	settled := steps.Taken
	switch v.Verdict {
	case lifecycle.Settled:
	case lifecycle.NotFound:
		settled = steps.Lost
	default:
		settled = steps.Superseded
	}
	s.replies(n, i, settled, s.say("caller %d settles with %s: %v", i+1, c.with, v.Verdict))
	if w.faults > 0 {
		n := w
		n.faults--
		s.replies(n, i, steps.Lost, s.say("caller %d cannot settle", i+1))
		n.rec = v.rec
		s.replies(n, i, steps.Lost, s.say("caller %d settles with %s: %v, and does not hear of it", i+1, c.with, v.Verdict))
	}
}

func (s *search) replies(w world, i int, settled steps.Settled, what string) {
	c := &w.callers[i]
	if !c.ran {
		s.repliesUnrun(w, i, settled, what)
		return
	}
	ending, lost := c.ending, settled
	if s.without.finalClosed {
		ending.Unclosed = false
	}
	if s.without.finalKept && lost == steps.Lost {
		lost = steps.Taken
	}
	switch steps.Replies(c.original, ending, lost) {
	case steps.TheReceipts:
		s.answer(w, i, theReceipts, what)
	case steps.Refusal:
		s.answer(w, i, mismatch, what)
	case steps.Own:
		s.answer(w, i, given[c.original], what)
	default:
		s.answer(w, i, comeBack, what)
	}
}

// repliesUnrun is a call that did not run: given back, completed or released.
func (s *search) repliesUnrun(w world, i int, settled steps.Settled, what string) {
	c := &w.callers[i]
	switch {
	case c.ending.Found:
		s.answer(w, i, theReceipts, what)
	case c.ending.Refused:
		s.answer(w, i, mismatch, what)
	case c.original == oncekeeper.SettledComplete && settled != steps.Superseded && !c.ending.Unclosed:
		s.answer(w, i, told, what)
	case c.said == steps.Unresolved && settled != steps.Lost:
		fp, token := c.fp, c.token
		*c = caller{fp: fp, released: token, tx: c.tx}
		s.begin(w, i, s.say("%s; it begins again", what))
	default:
		s.answer(w, i, comeBack, what)
	}
}
