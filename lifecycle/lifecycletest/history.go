package lifecycletest

import (
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

var telling = []Scenario{
	{"a first attempt has nothing behind it, and is told as it stands", func(l *Life) {
		token := l.granted(1, hold)
		l.stored()
		l.told(oncekeeper.HistoryEntry{Token: token, Event: oncekeeper.EventRunning, Attempt: 1, Holder: "holder-1"})
		end := l.rec.LeaseEnd
		l.wait(lease)
		l.unchanged(lifecycle.Unresolved, l.asks())
		l.told(oncekeeper.HistoryEntry{Token: token, Event: oncekeeper.EventLapsed, Attempt: 1, Holder: "holder-1", Ended: end})
	}},
	{"a settlement writes no history, and is told all the same", func(l *Life) {
		token := l.granted(1)
		for _, said := range []struct {
			as    oncekeeper.Settlement
			event oncekeeper.Event
		}{{oncekeeper.SettledUnknown, oncekeeper.EventUnknown}, {oncekeeper.SettledFinal, oncekeeper.EventFailed}} {
			l.wait(l.Moment)
			l.settle(token, said.as)
			l.stored()
			l.told(oncekeeper.HistoryEntry{
				Token: token, Event: said.event, Attempt: 1, Holder: "holder-1", Ended: l.rec.Settled, Code: 9, Message: "no funds",
			})
		}
	}},
	{"each attempt that another follows leaves how it ended", func(l *Life) {
		first, lapsed := l.abandoned(), l.rec.LeaseEnd
		second := l.granted(2)
		l.settle(second, oncekeeper.SettledUnknown)
		unknown := l.rec.Settled
		third := l.granted(3)
		l.settle(third, oncekeeper.SettledRetryable)
		released := l.rec.Settled
		fourth := l.granted(4)
		before := []oncekeeper.HistoryEntry{
			{Token: first, Event: oncekeeper.EventLapsed, Attempt: 1, Holder: "holder-1", Ended: lapsed},
			{Token: second, Event: oncekeeper.EventUnknown, Attempt: 2, Holder: "holder-2", Ended: unknown, Code: 9, Message: "no funds"},
			{Token: third, Event: oncekeeper.EventReleased, Attempt: 3, Holder: "holder-3", Ended: released, Code: 9, Message: "no funds"},
		}
		l.stored(before...)
		l.complete(fourth)
		l.told(append(before, oncekeeper.HistoryEntry{Token: fourth, Event: oncekeeper.EventCompleted, Attempt: 4, Holder: "holder-4", Ended: l.rec.Settled})...)
	}},
	{"who began each attempt, and who decided, is told with it", func(l *Life) {
		by := func(name string) asking { return func(c *lifecycle.Begin) { c.Principal = name } }
		first := l.granted(1, by("shop"))
		l.settle(first, oncekeeper.SettledRetryable)
		released := l.rec.Settled
		second := l.granted(2, by("mesh"))
		expect(l, "principal", l.rec.Principal, "mesh")
		l.resolve(lifecycle.Resolve{Force: true, Principal: "clerk", Reason: "its host is gone"})
		expect(l, "principal", l.rec.Principal, "mesh")
		decided := []oncekeeper.HistoryEntry{
			{Token: first, Event: oncekeeper.EventReleased, Attempt: 1, Holder: "holder-1", Principal: "shop", Ended: released, Code: 9, Message: "no funds"},
			{Token: second, Event: oncekeeper.EventOverruled, Attempt: 2, Holder: "holder-2", Principal: "mesh", Ended: l.now},
			{Token: l.rec.Token, Event: oncekeeper.EventResolvedReleased, Principal: "clerk", Ended: l.now, Reason: "its host is gone"},
		}
		l.told(decided...)
		l.play(lifecycle.Deleted, lifecycle.Delete{Key: l.Key, Etag: l.rec.Etag(), Principal: "root", Reason: "no more"})
		l.told(append(decided, oncekeeper.HistoryEntry{Token: l.rec.Token, Event: oncekeeper.EventDeleted, Principal: "root", Ended: l.now, Reason: "no more"})...)
	}},
	{"the trace in which an attempt was begun is kept with it and with what it gave, and decides nothing", func(l *Life) {
		first := l.granted(1, traced(firstTrace))
		l.unchanged(lifecycle.InProgress, l.asks(traced(secondTrace)))
		l.settle(first, oncekeeper.SettledRetryable)
		released := l.rec.Settled
		second := l.granted(2, traced(secondTrace))
		before := oncekeeper.HistoryEntry{
			Token: first, Event: oncekeeper.EventReleased, Attempt: 1, Holder: "holder-1", Ended: released, Code: 9, Message: "no funds",
			TraceParent: firstTrace,
		}
		l.stored(before)
		l.complete(second)
		l.unchanged(lifecycle.Replayed, l.asks(traced(firstTrace)))
		expect(l, "trace of the outcome", l.rec.Outcome().TraceParent, secondTrace)
		l.told(before, oncekeeper.HistoryEntry{
			Token: second, Event: oncekeeper.EventCompleted, Attempt: 2, Holder: "holder-3", Ended: l.rec.Settled, TraceParent: secondTrace,
		})
	}},
	{"an operator's word is of no attempt's trace, and a later attempt without one has none", func(l *Life) {
		l.granted(1, hold, traced(firstTrace))
		l.wait(lease)
		l.resolve(lifecycle.Resolve{Reason: "it is there", Response: &oncekeeper.Response{}})
		expect(l, "trace of the outcome", l.rec.Outcome().TraceParent, "")
		expect(l, "trace of the attempt that was decided", l.rec.History[0].TraceParent, firstTrace)
		expect(l, "trace of the operator's act", l.rec.History[1].TraceParent, "")
		l.play(lifecycle.Deleted, lifecycle.Delete{Key: l.Key, Etag: l.rec.Etag(), Force: true, Reason: "again"})
		expect(l, "trace of a deleted key", l.rec.TraceParent, "")
		l.granted(1, traced(secondTrace))
		l.wait(lease)
		l.granted(2)
		expect(l, "trace of an attempt that named none", l.rec.TraceParent, "")
	}},
	{"a call that gets its grant back goes on with its attempt", func(l *Life) {
		asked := l.asks()
		token := l.play(lifecycle.Granted, asked).Token
		l.wait(lease)
		l.play(lifecycle.Granted, asked)
		l.stored()
		l.told(oncekeeper.HistoryEntry{Token: token, Event: oncekeeper.EventRunning, Attempt: 1, Holder: asked.Holder})
	}},
	{"a key that is given up still says when its last attempt ended", func(l *Life) {
		token := l.released(attempts(1))
		entry := oncekeeper.HistoryEntry{
			Token: token, Event: oncekeeper.EventReleased, Attempt: 1, Holder: "holder-1", Ended: l.rec.Settled, Code: 9, Message: "no funds",
		}
		l.wait(time.Second)
		l.begin(lifecycle.Replayed)
		l.told(entry)
		l.forget(true)
		l.told(entry, oncekeeper.HistoryEntry{Token: l.rec.Token, Event: oncekeeper.EventDeleted, Ended: l.now})
	}},
	{"an operator's word is kept with its reason, behind the attempt that it decided", func(l *Life) {
		first := l.abandoned(hold)
		lapsed := oncekeeper.HistoryEntry{Token: first, Event: oncekeeper.EventLapsed, Attempt: 1, Holder: "holder-1", Ended: l.rec.LeaseEnd}
		l.resolve(lifecycle.Resolve{Reason: "no row in the ledger"})
		released := oncekeeper.HistoryEntry{Token: l.rec.Token, Event: oncekeeper.EventResolvedReleased, Ended: l.now, Reason: "no row in the ledger"}
		l.told(lapsed, released)
		second := l.granted(1, hold)
		l.stored(lapsed, released)
		l.settle(second, oncekeeper.SettledUnknown)
		unknown := oncekeeper.HistoryEntry{
			Token: second, Event: oncekeeper.EventUnknown, Attempt: 1, Holder: "holder-2", Ended: l.rec.Settled, Code: 9, Message: "no funds",
		}
		l.resolve(lifecycle.Resolve{Reason: "it is there", Response: &oncekeeper.Response{}})
		l.told(lapsed, released, unknown,
			oncekeeper.HistoryEntry{Token: l.rec.Token, Event: oncekeeper.EventResolvedCompleted, Ended: l.now, Reason: "it is there"})
	}},
	{"an attempt that an operator ends under its live lease was overruled", func(l *Life) {
		token := l.granted(1)
		l.resolve(lifecycle.Resolve{Force: true, Reason: "its host is gone", Status: &oncekeeper.Status{Code: 9}})
		l.told(
			oncekeeper.HistoryEntry{Token: token, Event: oncekeeper.EventOverruled, Attempt: 1, Holder: "holder-1", Ended: l.now},
			oncekeeper.HistoryEntry{Token: l.rec.Token, Event: oncekeeper.EventResolvedFailed, Ended: l.now, Reason: "its host is gone"},
		)
	}},
	{"what a key went through outlives its deletion, and not its expiry", func(l *Life) {
		token := l.granted(1)
		l.complete(token)
		completed := oncekeeper.HistoryEntry{Token: token, Event: oncekeeper.EventCompleted, Attempt: 1, Holder: "holder-1", Ended: l.rec.Settled}
		l.play(lifecycle.Deleted, lifecycle.Delete{Key: l.Key, Etag: l.rec.Etag(), Force: true, Reason: "the wrong account"})
		deleted := oncekeeper.HistoryEntry{Token: l.rec.Token, Event: oncekeeper.EventDeleted, Ended: l.now, Reason: "the wrong account"}
		l.told(completed, deleted)
		l.complete(l.granted(1, sending("raw", "another")))
		l.stored(completed, deleted)
		l.wait(retention)
		l.granted(1)
		l.stored()
	}},
	{"the oldest of many entries goes first", func(l *Life) {
		var tokens []int64
		for number := range int32(oncekeeper.MaxHistory + 3) {
			tokens = append(tokens, l.granted(number+1))
			l.settle(tokens[number], oncekeeper.SettledRetryable)
		}
		expect(l, "entries kept", len(l.rec.History), oncekeeper.MaxHistory)
		expect(l, "the oldest kept", l.rec.History[0].Token, tokens[2])
		expect(l, "the last kept", l.rec.History[oncekeeper.MaxHistory-1].Token, tokens[oncekeeper.MaxHistory+1])
		l.forget(false)
		expect(l, "entries kept", len(l.rec.History), oncekeeper.MaxHistory)
	}},
	{"a long message is cut between two runes", func(l *Life) {
		settle := failure(l.Key, l.granted(1), oncekeeper.SettledRetryable)
		settle.Status = &oncekeeper.Status{Code: 9, Message: "m" + strings.Repeat("é", oncekeeper.MaxHistoryMessageBytes)}
		l.play(lifecycle.Settled, settle)
		l.granted(2)
		expect(l, "message", l.rec.History[0].Message, "m"+strings.Repeat("é", (oncekeeper.MaxHistoryMessageBytes-1)/2))
	}},
}

// stored compares the history that the record keeps.
func (l *Life) stored(want ...oncekeeper.HistoryEntry) {
	l.T.Helper()
	l.sameHistory("stored history", want, l.rec.History)
}

// told compares all that is known of the key now.
func (l *Life) told(want ...oncekeeper.HistoryEntry) {
	l.T.Helper()
	l.sameHistory("history", want, lifecycle.History(l.rec, l.now))
}

func (l *Life) sameHistory(what string, want, got []oncekeeper.HistoryEntry) {
	l.T.Helper()
	if difference := Diff(&oncekeeper.KeyRecord{History: want}, &oncekeeper.KeyRecord{History: got}); difference != "" {
		l.fail(what, difference, "none")
	}
}

// resolve plays an operator's word on the record as it is.
func (l *Life) resolve(c lifecycle.Resolve) {
	l.T.Helper()
	c.Key, c.Etag = l.Key, l.rec.Etag()
	l.play(lifecycle.Resolved, c)
}
