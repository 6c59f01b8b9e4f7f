package codec

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle/lifecycletest"
)

var key = oncekeeper.Key{Tenant: "t", Operation: "o", ID: "1"}

// seeds are records that use every field between them.
func seeds() []*oncekeeper.KeyRecord {
	return []*oncekeeper.KeyRecord{
		{},
		{
			State: oncekeeper.StoredPending, Token: 1, Revision: 1, Fingerprint: []byte("f"), FingerprintScheme: "pb1",
			CallID: "call", Attempt: 1, Holder: "a", Principal: "shop", TraceParent: "00-01-02-03", Checkpoint: []byte{0, 255}, Created: 5, LeaseEnd: 9, UnsettledUntil: 12,
			Granted: oncekeeper.Grant{Lease: time.Second, Retention: time.Hour, UnsettledRetention: 24 * time.Hour, MaxAttempts: 3, Hold: true},
		},
		{
			State: oncekeeper.StoredCompleted, Token: 1 << 53, Revision: 7, AnyFingerprint: true, Takeover: true, Last: oncekeeper.SettledComplete,
			Expires: 1 << 60, Settled: 3, Origin: oncekeeper.OriginExhausted,
			Response: &oncekeeper.Response{
				Body: []byte("paid"), ContentType: "text/plain", StatusCode: 201, Resource: "charges/1", Omitted: true,
				Metadata: []oncekeeper.MetadataEntry{{Kind: oncekeeper.MetadataTrailer, Name: "a", Value: []byte{0, 255}}, {}},
			},
		},
		{
			State: oncekeeper.StoredFailed, Token: 2, Last: oncekeeper.SettledFinal, Response: &oncekeeper.Response{},
			Status: &oncekeeper.Status{Code: 9, Message: "no funds", Details: [][]byte{{1}, {}, {2, 3}}},
			History: []oncekeeper.HistoryEntry{
				{Token: 1, Event: 2, Attempt: 1, Holder: "a", Ended: 4, Code: 14, Message: "away", Reason: "looked it up", Principal: "clerk", TraceParent: "00-04-05-06"}, {},
			},
		},
	}
}

// FuzzWhatARecordReadsAsIsWrittenAndReadTheSame: whatever bytes a store holds are
// refused, or read as a record that comes back as it is from its own encoding, and
// shares nothing with them.
func FuzzWhatARecordReadsAsIsWrittenAndReadTheSame(f *testing.F) {
	for _, rec := range seeds() {
		encoded, err := Append(nil, rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		f.Add(encoded[:len(encoded)/2])
		// A state and a field of a newer version.
		f.Add(protowire.AppendVarint(protowire.AppendTag(bytes.Clone(encoded), 1, protowire.VarintType), 257))
		f.Add(protowire.AppendString(protowire.AppendTag(bytes.Clone(encoded), 1000, protowire.BytesType), "newer"))
	}
	// A length of time past what a Duration holds.
	lease := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1<<60+1)
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 10, protowire.BytesType), lease))
	f.Fuzz(func(t *testing.T, data []byte) {
		own := bytes.Clone(data)
		rec, err := Decode(key, own)
		if err != nil {
			return
		}
		for i := range own {
			own[i] ^= 0xff
		}
		encoded, err := Append([]byte("before"), rec)
		if err != nil {
			t.Fatalf("%x reads as %+v, which cannot be written: %v", data, rec, err)
		}
		encoded, ok := bytes.CutPrefix(encoded, []byte("before"))
		if !ok {
			t.Fatal("what stood before it was changed")
		}
		again, err := Decode(key, encoded)
		if err != nil {
			t.Fatalf("%x reads as %+v, which is written as %x: %v", data, rec, encoded, err)
		}
		if difference := lifecycletest.Diff(rec, again); difference != "" {
			t.Fatalf("%x is read, written and read otherwise (-first +second):\n%s", data, difference)
		}
	})
}

// FuzzARecordComesBackAsItWas is from the other end: of each text and number.
func FuzzARecordComesBackAsItWas(f *testing.F) {
	for _, rec := range seeds() {
		var body []byte
		if rec.Response != nil {
			body = rec.Response.Body
		}
		f.Add(uint8(rec.State), rec.Token, rec.CallID, body, int64(rec.Granted.Lease/time.Microsecond), uint8(rec.Last), rec.Granted.MaxAttempts, rec.Takeover)
	}
	f.Fuzz(func(t *testing.T, state uint8, token int64, text string, bin []byte, micros int64, last uint8, count int32, flag bool) {
		micros %= int64(1 << 50)
		length := time.Duration(micros) * time.Microsecond
		rec := &oncekeeper.KeyRecord{
			Key: key, State: oncekeeper.StoredState(state), Token: token, Revision: token, Fingerprint: bin, FingerprintScheme: text,
			AnyFingerprint: flag, CallID: text, Attempt: count, NotRun: flag, Takeover: !flag, Holder: text, Principal: text, TraceParent: text, Checkpoint: bin,
			Granted: oncekeeper.Grant{Lease: length, Retention: -length, UnsettledRetention: length, MaxAttempts: count, Hold: flag},
			Created: oncekeeper.Instant(micros), LeaseEnd: oncekeeper.Instant(token), UnsettledUntil: 1, Expires: oncekeeper.Instant(-micros),
			Last: oncekeeper.Settlement(last), Origin: oncekeeper.Origin(state), Settled: 2,
			History: []oncekeeper.HistoryEntry{{Token: token, Event: oncekeeper.Event(last), Attempt: count, Holder: text, Message: text, Reason: text, Principal: text, TraceParent: text}},
		}
		if flag {
			rec.Response = &oncekeeper.Response{
				Body: bin, ContentType: text, StatusCode: count, Resource: text, Omitted: flag,
				Metadata: []oncekeeper.MetadataEntry{{Kind: oncekeeper.MetadataKind(last), Name: text, Value: bin}},
			}
		} else {
			rec.Status = &oncekeeper.Status{Code: count, Message: text, Details: [][]byte{bin, nil}}
		}
		encoded, err := Append(nil, rec)
		if err != nil {
			return // text that is not UTF-8, which the service refuses
		}
		got, err := Decode(key, encoded)
		if err != nil {
			t.Fatal(err)
		}
		if difference := lifecycletest.Diff(rec, got); difference != "" {
			t.Fatalf("it comes back otherwise (-written +read):\n%s", difference)
		}
	})
}
