package wire_test

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestWhatAKeyWentThroughTravels(t *testing.T) {
	history := []oncekeeper.HistoryEntry{
		{Token: 5, Event: oncekeeper.EventReleased, Attempt: 1, Holder: "pod", Ended: 9, Code: 14, Message: "away", TraceParent: "00-t-s-01"},
		{Token: 10, Event: oncekeeper.EventResolvedReleased, Ended: 11, Reason: "no row"},
		{Token: 12, Event: oncekeeper.EventRunning, Attempt: 1, Holder: "pod-2", Principal: "shop"},
	}
	p := wire.HistoryToProto(history)
	if got := wire.HistoryFromProto(p); !reflect.DeepEqual(got, history) {
		t.Errorf("it comes as\n%+v, and went as\n%+v", got, history)
	}
	if start := p[0].GetStartTime().AsTime().UnixMicro(); start != 5 {
		t.Errorf("the first attempt started at %d, want its token's moment, 5", start)
	}
	if p[1].StartTime != nil || p[1].GetEndTime().AsTime().UnixMicro() != 11 || p[1].Status != nil {
		t.Errorf("an operator's act travels as %s", protojson.Format(p[1]))
	}
	if p[2].EndTime != nil {
		t.Errorf("an attempt that runs ended at %v", p[2].GetEndTime())
	}
	if wire.HistoryToProto(nil) != nil || wire.HistoryFromProto(nil) != nil {
		t.Error("no history comes as some")
	}
}

func TestEveryEventTravelsByItsName(t *testing.T) {
	for n, name := range pb.HistoryEntry_Event_name {
		if n == 0 {
			continue
		}
		if event := oncekeeper.Event(n); "EVENT_"+event.String() != name {
			t.Errorf("%s is %v", name, event)
		}
	}
	for event := range oncekeeper.Event(255) {
		if _, travels := pb.HistoryEntry_Event_name[int32(event)]; event.Known() && !travels {
			t.Errorf("%v has no name on the wire", event)
		}
	}
}

func TestAnEventOfANewerVersionIsNotTakenForAKnownOne(t *testing.T) {
	for _, n := range []pb.HistoryEntry_Event{-1, 99, 255, 256 + pb.HistoryEntry_EVENT_COMPLETED} {
		if got := wire.HistoryFromProto([]*pb.HistoryEntry{{Event: n}})[0].Event; got != 0 {
			t.Errorf("event %d reads as %v", n, got)
		}
	}
	if got := wire.HistoryToProto([]oncekeeper.HistoryEntry{{Event: 99}})[0].GetEvent(); got != 0 {
		t.Errorf("event 99 is told as %v", got)
	}
}
