package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func wire(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// wantReason fails unless err has the code and, in its ErrorInfo, the reason.
func wantReason(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && st.Code() == code && info.GetReason() == reason && info.GetDomain() == "oncekeeper" {
			return
		}
	}
	t.Fatalf("got %v with details %v; want %v %s", err, st.Details(), code, reason)
}

func violated(err error) (names []string) {
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				names = append(names, v.GetField())
			}
		}
	}
	return names
}

// wantInvalid fails unless err is INVALID_ARGUMENT, names the field in its
// details and message, and says the reason in the trailer too.
func wantInvalid(t *testing.T, err error, trailer metadata.MD, field string) {
	t.Helper()
	wantReason(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	if !slices.Contains(violated(err), field) {
		t.Errorf("the fields named are %v, want %s", violated(err), field)
	}
	if !strings.Contains(status.Convert(err).Message(), field) {
		t.Errorf("the message %q does not name %s", status.Convert(err).Message(), field)
	}
	if got := trailer.Get("oncekeeper-reason"); !slices.Equal(got, []string{"INVALID_REQUEST"}) {
		t.Errorf("the trailer oncekeeper-reason is %v", got)
	}
}

func TestABeginOutsideItsLimitsNamesTheField(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		for _, c := range []struct {
			field string
			spoil func(*pb.BeginRequest)
		}{
			{"key", func(r *pb.BeginRequest) { r.Key = nil }},
			{"fingerprint", func(r *pb.BeginRequest) { r.Fingerprint = make([]byte, 65) }},
			{"fingerprint_scheme", func(r *pb.BeginRequest) { r.FingerprintScheme = strings.Repeat("s", 17) }},
			{"call_id", func(r *pb.BeginRequest) { r.CallId = strings.Repeat("c", 65) }},
			{"call_id", func(r *pb.BeginRequest) { r.CallId = "a\x00" }},
			{"holder", func(r *pb.BeginRequest) { r.Holder = strings.Repeat("h", 129) }},
			{"lease", func(r *pb.BeginRequest) { r.Lease = wire(0) }},
			{"lease", func(r *pb.BeginRequest) { r.Lease = wire(-time.Second) }},
			{"lease", func(r *pb.BeginRequest) { r.Lease = &durationpb.Duration{Seconds: 1, Nanos: -1} }},
			{"lease", func(r *pb.BeginRequest) { r.Lease = &durationpb.Duration{Nanos: 1_000_000_000} }},
			{"lease", func(r *pb.BeginRequest) { r.Lease = &durationpb.Duration{Seconds: 1 << 62} }},
			{"retention", func(r *pb.BeginRequest) { r.Retention = wire(0) }},
			{"retention", func(r *pb.BeginRequest) { r.Retention = &durationpb.Duration{Seconds: -1, Nanos: 1} }},
			{"wait", func(r *pb.BeginRequest) { r.Wait = wire(-1) }},
			{"wait", func(r *pb.BeginRequest) { r.Wait = &durationpb.Duration{Seconds: -1, Nanos: 1} }},
			{"max_attempts", func(r *pb.BeginRequest) { r.MaxAttempts = -1 }},
			{"on_lease_expiry", func(r *pb.BeginRequest) { r.OnLeaseExpiry = 99 }},
		} {
			t.Run(c.field, func(t *testing.T) {
				req := begin("1", "c")
				c.spoil(req)
				var trailer metadata.MD
				_, err := h.Begin(testContext(t), req, grpc.Trailer(&trailer))
				wantInvalid(t, err, trailer, c.field)
			})
		}
		if _, err := h.Get(testContext(t), &pb.GetRequest{Key: key("1")}); status.Code(err) != codes.NotFound {
			t.Errorf("a refused Begin left something: %v", err)
		}
	})
}

func TestASettlementOutsideItsLimitsNamesTheField(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		g := h.grant(t, begin("1", "c"))
		limit := int(g.GetMaxResponseBytes())
		for _, c := range []struct {
			field string
			spoil func(*pb.CompleteRequest)
		}{
			{"key", func(r *pb.CompleteRequest) { r.Key = nil }},
			{"fencing_token", func(r *pb.CompleteRequest) { r.FencingToken = 0 }},
			{"response.body", func(r *pb.CompleteRequest) { r.Response.Body = make([]byte, limit+1) }},
			{"response.body", func(r *pb.CompleteRequest) { r.Response.Omitted, r.Response.Body = true, []byte("x") }},
			{"response.content_type", func(r *pb.CompleteRequest) { r.Response.ContentType = strings.Repeat("c", 256) }},
			{"response.resource", func(r *pb.CompleteRequest) { r.Response.Resource = strings.Repeat("r", 513) }},
			{"response.status_code", func(r *pb.CompleteRequest) { r.Response.StatusCode = 99 }},
			{"response.metadata", func(r *pb.CompleteRequest) { r.Response.Metadata = make([]*pb.MetadataEntry, 65) }},
			{"response.metadata", func(r *pb.CompleteRequest) {
				r.Response.Metadata = []*pb.MetadataEntry{{Kind: 1, Name: "n", Value: make([]byte, 16<<10)}}
			}},
			{"response.metadata[0].kind", func(r *pb.CompleteRequest) { r.Response.Metadata = []*pb.MetadataEntry{{Name: "n"}} }},
			{"response.metadata[0].name", func(r *pb.CompleteRequest) { r.Response.Metadata = []*pb.MetadataEntry{{Kind: 1}} }},
			{"response.metadata[0].name", func(r *pb.CompleteRequest) { r.Response.Metadata = []*pb.MetadataEntry{{Kind: 1, Name: ":path"}} }},
			{"response.metadata[0].name", func(r *pb.CompleteRequest) {
				r.Response.Metadata = []*pb.MetadataEntry{{Kind: 1, Name: "Content Type"}}
			}},
			{"response.content_type", func(r *pb.CompleteRequest) { r.Response.ContentType = "a\nb" }},
			{"response.status_code", func(r *pb.CompleteRequest) { r.Response.StatusCode = 1000 }},
			{"retention", func(r *pb.CompleteRequest) { r.Retention = wire(-1) }},
		} {
			t.Run("complete "+c.field, func(t *testing.T) {
				req := &pb.CompleteRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Response: &pb.StoredResponse{}}
				c.spoil(req)
				var trailer metadata.MD
				_, err := h.Complete(testContext(t), req, grpc.Trailer(&trailer))
				wantInvalid(t, err, trailer, c.field)
			})
		}
		for _, c := range []struct {
			field string
			spoil func(*pb.FailRequest)
		}{
			{"key", func(r *pb.FailRequest) { r.Key = nil }},
			{"fencing_token", func(r *pb.FailRequest) { r.FencingToken = -1 }},
			{"disposition", func(r *pb.FailRequest) { r.Disposition = 0 }},
			{"disposition", func(r *pb.FailRequest) { r.Disposition = 99 }},
			{"not_run", func(r *pb.FailRequest) { r.NotRun, r.Disposition = true, pb.FailRequest_DISPOSITION_FINAL }},
			{"not_run", func(r *pb.FailRequest) { r.NotRun, r.Disposition = true, pb.FailRequest_DISPOSITION_UNKNOWN }},
			{"status", func(r *pb.FailRequest) { r.Status = nil }},
			{"status.code", func(r *pb.FailRequest) { r.Status.Code = 0 }},
			{"status.code", func(r *pb.FailRequest) { r.Status.Code = 17 }},
			{"status.message", func(r *pb.FailRequest) { r.Status.Message = strings.Repeat("m", 8<<10+1) }},
			{"status.details", func(r *pb.FailRequest) { r.Status.Details = [][]byte{make([]byte, limit), {1}} }},
			{"status.details", func(r *pb.FailRequest) { r.Status.Details = make([][]byte, 65) }},
			{"retention", func(r *pb.FailRequest) { r.Retention = wire(0) }},
		} {
			t.Run("fail "+c.field, func(t *testing.T) {
				req := &pb.FailRequest{
					Key: key("1"), FencingToken: g.GetFencingToken(),
					Disposition: pb.FailRequest_DISPOSITION_FINAL, Status: &pb.StoredStatus{Code: 9},
				}
				c.spoil(req)
				var trailer metadata.MD
				_, err := h.Fail(testContext(t), req, grpc.Trailer(&trailer))
				wantInvalid(t, err, trailer, c.field)
			})
		}
		var trailer metadata.MD
		_, err := h.Renew(testContext(t), &pb.RenewRequest{Key: key("1"), FencingToken: g.GetFencingToken(), Checkpoint: make([]byte, 4097)}, grpc.Trailer(&trailer))
		wantInvalid(t, err, trailer, "checkpoint")
	})
}

func TestABatchThatIsNotOneIsRefusedWhole(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		one := func(id string) *pb.BeginRequest { return begin(id, "") }
		many := make([]*pb.BeginRequest, 257)
		for i := range many {
			many[i] = one(fmt.Sprint(i))
		}
		for field, reqs := range map[string][]*pb.BeginRequest{
			"requests":         nil,
			"requests[2].key":  {one("a"), one("b"), one("a")},
			"requests[1].wait": {one("a"), waiting("b", "", time.Second)},
		} {
			var trailer metadata.MD
			_, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: reqs}, grpc.Trailer(&trailer))
			t.Run(field, func(t *testing.T) { wantInvalid(t, err, trailer, field) })
		}
		var trailer metadata.MD
		_, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: many}, grpc.Trailer(&trailer))
		wantInvalid(t, err, trailer, "requests")
		_, err = h.BatchSettle(testContext(t), &pb.BatchSettleRequest{Settlements: []*pb.Settlement{{}}}, grpc.Trailer(&trailer))
		wantInvalid(t, err, trailer, "settlements[0]")
		fail := &pb.Settlement{Settlement: &pb.Settlement_Fail{Fail: &pb.FailRequest{Key: key("a"), FencingToken: 1}}}
		_, err = h.BatchSettle(testContext(t), &pb.BatchSettleRequest{Settlements: []*pb.Settlement{fail, fail}}, grpc.Trailer(&trailer))
		wantInvalid(t, err, trailer, "settlements[1].key")
		if _, err := h.Get(testContext(t), &pb.GetRequest{Key: key("a")}); status.Code(err) != codes.NotFound {
			t.Errorf("a refused batch left something: %v", err)
		}
	})
}
