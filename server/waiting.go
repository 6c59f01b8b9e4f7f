package server

import (
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// waiting holds the Begins that wait for another attempt's end, by key.
//
// Each result of this server about a key is published to it. A waiter that the
// rules would answer from that record without changing it is answered at once,
// with no further call to the store; where they would change it (the key is free
// again) one waiter is given the turn to ask the store, and the others go on
// waiting for what becomes of it. So a thousand waiters cost a settlement
// nothing in the store, and a release or a lease's end one Begin.
//
// It holds no connection and no goroutine: a waiter's own call is all there is.
type waiting struct {
	clock          clock.Clock
	maxAll, maxKey int

	mu     sync.Mutex
	keys   map[oncekeeper.Key]*line
	all    int
	closed bool

	counts waitCounts
}

// busyAlarm is how often the store is asked about a key that is busy for no reason
// that this version knows.
const busyAlarm = 250 * time.Millisecond

// line is what waits for one key.
type line struct {
	// guests are the waiters in the line, asleep or asking the store.
	guests int
	asleep []*waiter
	// turn is the waiter who asks the store on behalf of all; nil for none.
	turn *waiter
	// latest is the newest result published since the line began, and seen when
	// that was on the monotonic clock.
	latest storage.Result
	seen   time.Duration
	timer  clock.Timer
}

// waiter is one Begin that may wait.
type waiter struct {
	cmd lifecycle.Begin
	// wake gets at most one thing at a time: a result to answer with, or the turn.
	wake chan wakeup
}

// wakeup ends a sleep.
type wakeup struct {
	// answer to give; nil: it is this waiter's turn to ask the store.
	answer *storage.Result
	// closing: the server stops.
	closing bool
}

func newWaiting(c clock.Clock, maxAll, maxKey int) *waiting {
	return &waiting{clock: c, maxAll: maxAll, maxKey: maxKey, keys: map[oncekeeper.Key]*line{}}
}

// join makes room for a waiter before its first Begin, so that what happens
// between that Begin and its sleep is not missed. nil: there is no room, and the
// call does not wait.
func (q *waiting) join(cmd lifecycle.Begin) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[cmd.Key]
	switch {
	case q.closed:
		return nil
	case q.all >= q.maxAll:
		q.counts.full.Add(1)
		return nil
	case l != nil && l.guests >= q.maxKey:
		q.counts.keyFull.Add(1)
		return nil
	}
	if l == nil {
		l = &line{}
		q.keys[cmd.Key] = l
	}
	l.guests++
	q.all++
	return &waiter{cmd: cmd, wake: make(chan wakeup, 1)}
}

// leave ends w's waiting, wherever it stands; its turn goes to the next.
func (q *waiting) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[w.cmd.Key]
	l.remove(w)
	l.guests--
	q.all--
	if l.guests == 0 {
		l.stopTimer()
		delete(q.keys, w.cmd.Key)
		return
	}
	if l.turn == w {
		l.turn = nil
		q.review(w.cmd.Key, l)
	}
}

// sleep puts w to sleep after the store answered it with res, in progress. The
// wake-up comes by w.wake, and may be there already.
func (q *waiting) sleep(w *waiter, res storage.Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.rouse(w, wakeup{closing: true})
		return
	}
	l := q.keys[w.cmd.Key]
	l.asleep = append(l.asleep, w)
	if l.turn == w {
		l.turn = nil
	}
	q.see(l, res)
	q.review(w.cmd.Key, l)
}

// publish tells whoever waits for the result's key.
func (q *waiting) publish(key oncekeeper.Key, res storage.Result) {
	if res.Err != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[key]
	if l == nil || !q.see(l, res) {
		return
	}
	q.review(key, l)
}

// see takes res as the latest, unless a newer one was seen.
func (q *waiting) see(l *line, res storage.Result) bool {
	if older(res, l.latest) {
		return false
	}
	l.latest, l.seen = res, q.clock.Monotonic()
	return true
}

// now is the store's clock as far as this host can tell, and never ahead of it.
func (q *waiting) now(l *line) oncekeeper.Instant {
	return l.latest.Now.Add((q.clock.Monotonic() - l.seen).Truncate(time.Microsecond))
}

// older says whether b is of a later version of the record than a. Of one version
// neither is: the store's clock may have gone back between them, and what it said
// last is then what it goes by.
func older(a, b storage.Result) bool {
	if a.Record == nil || b.Record == nil {
		return a.Now < b.Now
	}
	if a.Record.Token != b.Record.Token {
		return a.Record.Token < b.Record.Token
	}
	return a.Record.Revision < b.Record.Revision
}

// review answers the sleepers that the latest result answers, gives the turn
// where the key is free or by now may be, and sets the alarm for the lease's end
// otherwise. What time alone has made of the record since it was seen is no answer:
// another server may have renewed its lease. The caller holds mu.
func (q *waiting) review(key oncekeeper.Key, l *line) {
	rec, now := l.latest.Record, q.now(l)
	asleep := l.asleep[:0]
	for _, w := range l.asleep {
		next, verdict := lifecycle.Apply(rec, w.cmd, l.latest.Now)
		_, later := lifecycle.Apply(rec, w.cmd, now)
		switch {
		case verdict == lifecycle.InProgress && later == verdict:
			asleep = append(asleep, w)
		case next != rec || verdict == lifecycle.Granted || later != verdict:
			if l.turn != nil {
				asleep = append(asleep, w)
				continue
			}
			l.turn = w
			q.rouse(w, wakeup{})
		default:
			q.rouse(w, wakeup{answer: &storage.Result{Verdict: verdict, Record: next, Now: l.latest.Now}})
		}
	}
	clear(l.asleep[len(asleep):])
	l.asleep = asleep
	q.setAlarm(key, l)
}

func (q *waiting) setAlarm(key oncekeeper.Key, l *line) {
	l.stopTimer()
	if len(l.asleep) == 0 || l.turn != nil || l.latest.Record == nil {
		return
	}
	left := l.latest.Record.LeaseEnd.Sub(q.now(l))
	if left <= 0 {
		// The store calls a key busy whose lease is over: a newer version wrote it.
		left = busyAlarm
	}
	l.timer = q.clock.AfterFunc(left, func() { q.alarm(key, l) })
}

// alarm gives the turn to the first sleeper: by this host's clock the lease is
// over, and the store's will tell.
func (q *waiting) alarm(key oncekeeper.Key, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keys[key] != l || l.turn != nil || len(l.asleep) == 0 {
		return
	}
	l.turn = l.asleep[0]
	l.asleep = append(l.asleep[:0], l.asleep[1:]...)
	q.rouse(l.turn, wakeup{})
}

func (l *line) remove(w *waiter) {
	for i, other := range l.asleep {
		if other == w {
			l.asleep = append(l.asleep[:i], l.asleep[i+1:]...)
			return
		}
	}
}

func (l *line) stopTimer() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// size gives how many wait, and for how many keys.
func (q *waiting) size() (waiters, keys int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all, len(q.keys)
}

// rouse ends w's sleep.
func (q *waiting) rouse(w *waiter, by wakeup) {
	q.counts.woke(by)
	w.wake <- by
}

// close wakes everyone; nobody sleeps from then on.
func (q *waiting) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, l := range q.keys {
		l.stopTimer()
		for _, w := range l.asleep {
			q.rouse(w, wakeup{closing: true})
		}
		l.asleep = nil
	}
}
