package lifecycle

import (
	"unicode/utf8"

	"github.com/oncekeeper/oncekeeper"
)

// History gives all that is known of what rec's key went through, oldest first, the
// last attempt as it stands at now included: one entry more than a record keeps at
// the most. rec is not gone.
func History(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) []oncekeeper.HistoryEntry {
	if last, ok := lastAttempt(rec, now); ok {
		return followed(rec.History, last)
	}
	return rec.History
}

// followed gives a copy of history with entry at its end. Of attempts that were not
// run, one after the other, only the last is told.
func followed(history []oncekeeper.HistoryEntry, entry oncekeeper.HistoryEntry) []oncekeeper.HistoryEntry {
	n := len(history)
	if n > 0 && entry.Event == oncekeeper.EventNotRun && history[n-1].Event == oncekeeper.EventNotRun {
		n--
	}
	return append(history[:n:n], entry)
}

// past is the history of a record that follows rec under another hand. An attempt
// gets its entry there and not when it is settled: until then the record itself says
// it, and a settlement writes nothing beside the outcome.
func past(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) []oncekeeper.HistoryEntry {
	return latest(History(rec, now))
}

// decided is past where an operator decided the key, which is an entry by itself.
func decided(rec *oncekeeper.KeyRecord, act oncekeeper.HistoryEntry) []oncekeeper.HistoryEntry {
	history := History(rec, act.Ended) // a running attempt is in no record's own, so it is a copy that has one
	if n := len(history) - 1; n >= 0 && history[n].Event == oncekeeper.EventRunning {
		history[n].Event, history[n].Ended = oncekeeper.EventOverruled, act.Ended
	}
	return latest(followed(history, act))
}

func latest(history []oncekeeper.HistoryEntry) []oncekeeper.HistoryEntry {
	return history[max(0, len(history)-oncekeeper.MaxHistory):]
}

// lastAttempt gives the entry of the attempt that rec describes. It describes none
// once an operator decided the key, nor where the attempt's entry was written
// although no other hand took the key.
func lastAttempt(rec *oncekeeper.KeyRecord, now oncekeeper.Instant) (oncekeeper.HistoryEntry, bool) {
	if n := len(rec.History); rec.Origin == oncekeeper.OriginOperator || n > 0 && rec.History[n-1].Token == rec.Token {
		return oncekeeper.HistoryEntry{}, false
	}
	entry := oncekeeper.HistoryEntry{
		Token: rec.Token, Attempt: rec.LastAttempt(), Holder: rec.Holder, Principal: rec.Principal, TraceParent: rec.TraceParent, Ended: rec.Settled,
	}
	if rec.Status != nil {
		entry.Code, entry.Message = rec.Status.Code, cut(rec.Status.Message)
	}
	switch rec.Last {
	case oncekeeper.SettledComplete:
		entry.Event = oncekeeper.EventCompleted
	case oncekeeper.SettledFinal:
		entry.Event = oncekeeper.EventFailed
	case oncekeeper.SettledRetryable:
		entry.Event = oncekeeper.EventReleased
		if rec.NotRun {
			entry.Event = oncekeeper.EventNotRun
		}
	case oncekeeper.SettledUnknown:
		entry.Event = oncekeeper.EventUnknown
	case oncekeeper.SettledNot:
		entry.Event, entry.Ended = oncekeeper.EventLapsed, rec.LeaseEnd
		if live(rec, now) {
			entry.Event, entry.Ended = oncekeeper.EventRunning, 0
		}
	}
	return entry, true
}

// cut gives as much of a message as an entry keeps, in whole runes.
func cut(message string) string {
	if len(message) <= oncekeeper.MaxHistoryMessageBytes {
		return message
	}
	end := oncekeeper.MaxHistoryMessageBytes
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}
