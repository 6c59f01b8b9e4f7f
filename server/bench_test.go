package server

import (
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
)

// What the server does with a Begin beside the store and gRPC: the message becomes a
// request, that a command, and the result an answer.

func BenchmarkDecodeBegin(b *testing.B) {
	data, err := proto.Marshal(benchBegin())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		raw := &undecoded{into: &pb.BeginRequest{}}
		if err := (strictCodec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, raw); err != nil || raw.failed {
			b.Fatal(err)
		}
	}
}

func benchBegin() *pb.BeginRequest {
	return &pb.BeginRequest{
		Key:         &pb.Key{Tenant: "shop", Operation: "pay.Payments/Charge", Id: "order-1742"},
		Fingerprint: make([]byte, 32), FingerprintScheme: "pb1", CallId: "0123456789abcdef0123456789abcdef", Holder: "pod-7",
	}
}

func BenchmarkReadBegin(b *testing.B) {
	req := benchBegin()
	b.ReportAllocs()
	for b.Loop() {
		var f fields
		readBegin(&f, req, policy.Default())
		if err := f.err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAnswerBegin(b *testing.B) {
	res := storage.Result{Verdict: lifecycle.Granted, Now: 1, Record: &oncekeeper.KeyRecord{
		State: oncekeeper.StoredPending, Token: 1, Attempt: 1, LeaseEnd: oncekeeper.Instant(0).Add(30 * time.Second),
	}}
	b.ReportAllocs()
	for b.Loop() {
		beginAnswer(res, 0, policy.Default())
	}
}
