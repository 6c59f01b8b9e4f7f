package codec

import (
	"github.com/oncekeeper/oncekeeper"
	recordv1 "github.com/oncekeeper/oncekeeper/storage/internal/oncekeeper/record/v1"
)

func historyToProto(history []oncekeeper.HistoryEntry) []*recordv1.HistoryEntry {
	if len(history) == 0 {
		return nil
	}
	all := make([]*recordv1.HistoryEntry, len(history))
	for i, e := range history {
		all[i] = &recordv1.HistoryEntry{
			Token: e.Token, Event: uint32(e.Event), Attempt: e.Attempt, Holder: e.Holder, Ended: int64(e.Ended),
			Code: e.Code, Message: e.Message, Reason: e.Reason, Principal: e.Principal, TraceParent: e.TraceParent,
		}
	}
	return all
}

func historyFromProto(all []*recordv1.HistoryEntry) []oncekeeper.HistoryEntry {
	if len(all) == 0 {
		return nil
	}
	history := make([]oncekeeper.HistoryEntry, len(all))
	for i, p := range all {
		history[i] = oncekeeper.HistoryEntry{
			Token: p.GetToken(), Event: oncekeeper.Event(narrow(p.GetEvent())), Attempt: p.GetAttempt(),
			Holder: p.GetHolder(), Ended: oncekeeper.Instant(p.GetEnded()),
			Code: p.GetCode(), Message: p.GetMessage(), Reason: p.GetReason(), Principal: p.GetPrincipal(), TraceParent: p.GetTraceParent(),
		}
	}
	return history
}
