package server_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// fuzzed are the methods that are sent any bytes, each with a request that it takes
// and room for its answer.
func fuzzed() []struct {
	method  string
	request proto.Message
	answer  proto.Message
} {
	return []struct {
		method  string
		request proto.Message
		answer  proto.Message
	}{
		{pb.IdempotencyService_Begin_FullMethodName, begin("1", "call"), &pb.BeginResponse{}},
		{pb.IdempotencyService_Renew_FullMethodName, &pb.RenewRequest{Key: key("1"), FencingToken: 1, Lease: durationpb.New(time.Second), Checkpoint: []byte("half")}, &pb.RenewResponse{}},
		{pb.IdempotencyService_Complete_FullMethodName, &pb.CompleteRequest{Key: key("1"), FencingToken: 1, Response: &pb.StoredResponse{Body: []byte("x")}}, &pb.CompleteResponse{}},
		{pb.IdempotencyService_Fail_FullMethodName, &pb.FailRequest{Key: key("1"), FencingToken: 1, Disposition: pb.FailRequest_DISPOSITION_FINAL, Status: &pb.StoredStatus{Code: 9}}, &pb.FailResponse{}},
		{pb.IdempotencyService_Get_FullMethodName, &pb.GetRequest{Key: key("1")}, &pb.GetResponse{}},
		{pb.IdempotencyService_BatchBegin_FullMethodName, &pb.BatchBeginRequest{Requests: []*pb.BeginRequest{begin("1", "a"), begin("2", "b")}}, &pb.BatchBeginResponse{}},
		{pb.IdempotencyService_BatchSettle_FullMethodName, &pb.BatchSettleRequest{}, &pb.BatchSettleResponse{}},
		{pb.AdminService_ListRecords_FullMethodName, &pb.ListRecordsRequest{Tenant: "acme", PageSize: 3, PageToken: "x"}, &pb.ListRecordsResponse{}},
		{pb.AdminService_ResolveRecord_FullMethodName, &pb.ResolveRecordRequest{Key: key("1"), Etag: "1-1", Reason: "r"}, &pb.ResolveRecordResponse{}},
		{pb.AdminService_DeleteRecord_FullMethodName, &pb.DeleteRecordRequest{Key: key("1"), Etag: "1-1", Reason: "r", Force: true}, &pb.DeleteRecordResponse{}},
		{pb.AdminService_Sweep_FullMethodName, &pb.SweepRequest{Tenant: "acme", DryRun: true}, &pb.SweepResponse{}},
	}
}

// answers are the codes that a caller may be given, whatever it sends, by a server
// that nothing is wrong with.
var answers = []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Aborted}

// FuzzAnyRequestIsJudgedOrRefused: by a code that says whose fault it is, with a
// reason, and never as an internal one.
func FuzzAnyRequestIsJudgedOrRefused(f *testing.F) {
	methods := fuzzed()
	for i, m := range methods {
		raw, err := proto.Marshal(m.request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), raw)
		f.Add(byte(i), raw[:len(raw)/2])
		f.Add(byte(i), append(raw, 0xff))
	}
	conn := fuzzedServer(f)
	f.Fuzz(func(t *testing.T, which byte, raw []byte) {
		m := methods[int(which)%len(methods)]
		var trailer metadata.MD
		err := conn.Invoke(t.Context(), m.method, raw, m.answer, grpc.Trailer(&trailer))
		if code := status.Code(err); !slices.Contains(answers, code) {
			t.Fatalf("%s answers %v", m.method, err)
		}
		if reason := trailer.Get("oncekeeper-reason"); err != nil && len(reason) != 1 {
			t.Fatalf("%s answers %v, with the reason %v", m.method, err, reason)
		}
	})
}

// fuzzedServer is on a clock of its own, and holds no call for long.
func fuzzedServer(f *testing.F) *grpc.ClientConn {
	f.Helper()
	store, err := pebble.Open(pebble.Config{})
	if err != nil {
		f.Fatal(err)
	}
	limits := policy.Default()
	limits.MaxWait = time.Millisecond
	srv, err := server.New(server.Config{Store: store, Policy: &limits})
	if err != nil {
		f.Fatal(err)
	}
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:test",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = conn.Close()
		if err := srv.Shutdown(context.Background()); err != nil {
			f.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			f.Errorf("Serve: %v", err)
		}
		if err := store.Close(); err != nil {
			f.Errorf("Close: %v", err)
		}
	})
	return conn
}
