package wire_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// travel sends m over an imaginary wire.
func travel[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	back := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(raw, back); err != nil {
		t.Fatal(err)
	}
	return back.(M)
}

var fullResponse = &oncekeeper.Response{
	Body: []byte("body"), ContentType: "application/json", Omitted: true, StatusCode: 201, Resource: "charges/ch_1",
	Metadata: []oncekeeper.MetadataEntry{
		{Kind: oncekeeper.MetadataHeader, Name: "location", Value: []byte("/1")},
		{Kind: oncekeeper.MetadataTrailer, Name: "x-bin", Value: []byte{0, 255}},
	},
}

func TestOutcomesTravelWhole(t *testing.T) {
	outcomes := []*oncekeeper.Outcome{
		{Response: fullResponse, Origin: oncekeeper.OriginAttempt, Token: 1 << 52, Attempt: 3, Settled: 17, Expires: 18},
		{Status: &oncekeeper.Status{Code: 9, Message: "no", Details: [][]byte{{1}, {2, 3}}}, Origin: oncekeeper.OriginOperator, Token: 1},
		{Status: &oncekeeper.Status{Code: 2}, Origin: oncekeeper.OriginExhausted},
		{Response: &oncekeeper.Response{}},
		nil,
	}
	for _, want := range outcomes {
		p := wire.OutcomeToProto(want)
		if p != nil {
			p = travel(t, p)
		}
		if got := wire.OutcomeFromProto(p); !reflect.DeepEqual(got, want) {
			t.Errorf("outcome came as %+v, want %+v", got, want)
		}
	}
	if r := wire.ResponseFromProto(wire.ResponseToProto(nil)); r != nil {
		t.Errorf("no response came as %+v", r)
	}
	if s := wire.StatusFromProto(wire.StatusToProto(nil)); s != nil {
		t.Errorf("no status came as %+v", s)
	}
}

func TestWordsOfANewerVersionAreNotTakenForKnownOnes(t *testing.T) {
	o := wire.OutcomeFromProto(&pb.Outcome{Origin: 77})
	if o.Origin != 0 || o.Response != nil || o.Status != nil {
		t.Errorf("an unknown outcome reads as %+v", o)
	}
	r := wire.ResponseFromProto(&pb.StoredResponse{Metadata: []*pb.MetadataEntry{{Kind: 77, Name: "n"}}})
	if r.Metadata[0].Kind != 0 {
		t.Errorf("an unknown metadata kind reads as %d", r.Metadata[0].Kind)
	}
	if s := wire.StateFromProto(77); s != 0 {
		t.Errorf("an unknown state reads as %v", s)
	}
	if s, ok := wire.DispositionFromProto(77); ok || s != oncekeeper.SettledNot {
		t.Errorf("an unknown disposition reads as %d", s)
	}
	if _, ok := wire.HoldFromProto(77); ok {
		t.Error("an unknown lease expiry passes for a known one")
	}
}

func TestARecordIsGivenInTheStateItWasReadIn(t *testing.T) {
	rec := &oncekeeper.KeyRecord{
		Key:   oncekeeper.Key{Tenant: "t", Operation: "o", ID: "i"},
		State: oncekeeper.StoredPending, Token: 7, Revision: 2,
		Fingerprint: []byte{9}, FingerprintScheme: "pb1", Attempt: 4, Holder: "pod", Principal: "shop", TraceParent: "00-t-s-01",
		Granted: oncekeeper.Grant{Hold: true}, Checkpoint: []byte("cp"),
		Created: 10, LeaseEnd: 20, Settled: 30, Expires: 40, Origin: oncekeeper.OriginAttempt,
		Last: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{Code: 14, Message: "m"},
	}
	at := func(us int64) *timestamppb.Timestamp { return timestamppb.New(time.UnixMicro(us)) }
	want := &pb.KeyRecord{
		Key: &pb.Key{Tenant: "t", Operation: "o", Id: "i"}, State: pb.KeyRecord_STATE_UNRESOLVED,
		Etag: rec.Etag(), Fingerprint: []byte{9}, FingerprintScheme: "pb1", FencingToken: 7, AttemptNumber: 4, Holder: "pod", Principal: "shop", TraceParent: "00-t-s-01",
		CreateTime: at(10), LeaseExpireTime: at(20), SettleTime: at(30), ExpireTime: at(40),
		Outcome: &pb.Outcome{
			Result: &pb.Outcome_Status{Status: &pb.StoredStatus{Code: 14, Message: "m"}},
			Origin: pb.Outcome_ORIGIN_ATTEMPT, FencingToken: 7, AttemptNumber: 4, SettleTime: at(30), ExpireTime: at(40), TraceParent: "00-t-s-01",
		},
		Checkpoint: []byte("cp"), OnLeaseExpiry: pb.LeaseExpiry_LEASE_EXPIRY_HOLD,
	}
	if got := wire.RecordToProto(rec, oncekeeper.StateUnresolved); !proto.Equal(got, want) {
		t.Errorf("record = %v\nwant     %v", got, want)
	}
	if k := wire.KeyFromProto(want.GetKey()); k != rec.Key {
		t.Errorf("key came as %+v", k)
	}
	if k := wire.KeyFromProto(nil); k != (oncekeeper.Key{}) {
		t.Errorf("no key came as %+v", k)
	}
}

func TestEveryStateAndDispositionTravels(t *testing.T) {
	for n, name := range pb.KeyRecord_State_name {
		if got := wire.StateFromProto(pb.KeyRecord_State(n)); n != 0 && "STATE_"+got.String() != name {
			t.Errorf("%s reads as %v", name, got)
		}
	}
	for _, s := range []oncekeeper.Settlement{oncekeeper.SettledRetryable, oncekeeper.SettledFinal, oncekeeper.SettledUnknown} {
		p := wire.DispositionToProto(s)
		if got, ok := wire.DispositionFromProto(p); !ok || got != s || p == 0 {
			t.Errorf("settlement %d travels as %v and comes as %d", s, p, got)
		}
	}
	for _, s := range []oncekeeper.Settlement{oncekeeper.SettledNot, oncekeeper.SettledComplete} {
		if p := wire.DispositionToProto(s); p != pb.FailRequest_DISPOSITION_UNSPECIFIED {
			t.Errorf("settlement %d travels as %v, which is not Fail's to say", s, p)
		}
	}
	for _, hold := range []bool{false, true} {
		if got, ok := wire.HoldFromProto(wire.HoldToProto(hold)); got != hold || !ok {
			t.Errorf("hold %v comes as %v", hold, got)
		}
	}
	if hold, ok := wire.HoldFromProto(pb.LeaseExpiry_LEASE_EXPIRY_UNSPECIFIED); hold || !ok {
		t.Error("unspecified does not read as asking for nothing")
	}
}

func TestInstantsTravelToTheMicrosecond(t *testing.T) {
	for _, want := range []oncekeeper.Instant{0, 1, -1, 1_700_000_000_123_456} {
		got, err := wire.InstantFromProto(wire.InstantToProto(want))
		if err != nil || got != want {
			t.Errorf("instant %d came as %d, %v", want, got, err)
		}
	}
	if wire.InstantToProto(0) != nil {
		t.Error("no instant is a timestamp")
	}
	far := wire.InstantToProto(math.MaxInt64)
	if err := far.CheckValid(); err != nil {
		t.Errorf("the last instant makes a malformed timestamp: %v", err)
	}
	if got, _ := wire.InstantFromProto(&timestamppb.Timestamp{Seconds: 1, Nanos: 1999}); got != 1_000_001 {
		t.Errorf("1 s and 1999 ns = %d us, want it rounded down", got)
	}
	if _, err := wire.InstantFromProto(&timestamppb.Timestamp{Nanos: -1}); err == nil {
		t.Error("a malformed timestamp is taken")
	}
	if o := wire.OutcomeFromProto(&pb.Outcome{SettleTime: &timestamppb.Timestamp{Nanos: -1}}); o.Settled != 0 {
		t.Errorf("a malformed settle time reads as %d", o.Settled)
	}
}

func TestDurationsTravel(t *testing.T) {
	for _, want := range []time.Duration{0, 1, -time.Second, math.MaxInt64, math.MinInt64} {
		got, err := wire.DurationFromProto(wire.DurationToProto(want))
		if err != nil || got != want {
			t.Errorf("%d came as %d, %v", want, got, err)
		}
	}
	if got, err := wire.DurationFromProto(nil); got != 0 || err != nil {
		t.Errorf("unset came as %v, %v", got, err)
	}
	if wire.OptionalDurationToProto(0) != nil || wire.OptionalDurationToProto(1).AsDuration() != 1 {
		t.Error("only zero is left out")
	}
	if got, err := wire.DurationFromProto(&durationpb.Duration{Seconds: 315_576_000_000}); got != math.MaxInt64 || err != nil {
		t.Errorf("ten thousand years came as %v, %v", got, err)
	}
	for _, bad := range []*durationpb.Duration{{Seconds: 1, Nanos: -1}, {Nanos: 1_000_000_000}, {Seconds: 315_576_000_001}} {
		if got, err := wire.DurationFromProto(bad); err == nil {
			t.Errorf("malformed %v is taken as %v", bad, got)
		}
	}
}
