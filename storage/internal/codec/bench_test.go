package codec_test

import (
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/storage/internal/codec"
)

var completed = &oncekeeper.KeyRecord{
	Key:   oncekeeper.Key{Tenant: "shop", Operation: "pay.Payments/Charge", ID: "order-1742"},
	State: oncekeeper.StoredCompleted, Token: 1_700_000_000_000_000, Revision: 2, Attempt: 1,
	Fingerprint: make([]byte, 32), FingerprintScheme: "pb1", CallID: "0123456789abcdef0123456789abcdef", Holder: "pod-7",
	Granted: oncekeeper.Grant{Lease: 30 * time.Second, Retention: 24 * time.Hour, UnsettledRetention: 720 * time.Hour},
	Created: 1_700_000_000_000_000, LeaseEnd: 1_700_000_030_000_000, Settled: 1_700_000_001_000_000, Expires: 1_700_086_401_000_000,
	Last: oncekeeper.SettledComplete, Origin: oncekeeper.OriginAttempt,
	Response: &oncekeeper.Response{Body: make([]byte, 256), ContentType: "application/json"},
}

func BenchmarkAppend(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.Append(nil, completed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data, err := codec.Append(nil, completed)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.Decode(completed.Key, data); err != nil {
			b.Fatal(err)
		}
	}
}
