package wire

import (
	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// HistoryToProto gives nil for none. An event that this version does not know is
// unspecified.
func HistoryToProto(history []oncekeeper.HistoryEntry) []*pb.HistoryEntry {
	var all []*pb.HistoryEntry
	for _, e := range history {
		p := &pb.HistoryEntry{
			FencingToken:  e.Token,
			AttemptNumber: e.Attempt,
			Holder:        e.Holder,
			StartTime:     InstantToProto(e.Started()),
			EndTime:       InstantToProto(e.Ended),
			Reason:        e.Reason,
			Principal:     e.Principal,
			TraceParent:   e.TraceParent,
		}
		if e.Event.Known() {
			p.Event = pb.HistoryEntry_Event(e.Event)
		}
		if e.Code != 0 || e.Message != "" {
			p.Status = &pb.StoredStatus{Code: e.Code, Message: e.Message}
		}
		all = append(all, p)
	}
	return all
}

// HistoryFromProto gives nil for none. An event that this version does not know is
// zero.
func HistoryFromProto(all []*pb.HistoryEntry) []oncekeeper.HistoryEntry {
	var history []oncekeeper.HistoryEntry
	for _, p := range all {
		e := oncekeeper.HistoryEntry{
			Token:       p.GetFencingToken(),
			Attempt:     p.GetAttemptNumber(),
			Holder:      p.GetHolder(),
			Ended:       readInstant(p.GetEndTime()),
			Code:        p.GetStatus().GetCode(),
			Message:     p.GetStatus().GetMessage(),
			Reason:      p.GetReason(),
			Principal:   p.GetPrincipal(),
			TraceParent: p.GetTraceParent(),
		}
		if event := oncekeeper.Event(max(0, min(p.GetEvent(), 255))); event.Known() {
			e.Event = event
		}
		history = append(history, e)
	}
	return history
}
