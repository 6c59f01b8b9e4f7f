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
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
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

func TestKeysAreJudgedByteForByte(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		const composed, decomposed = "caf\u00e9", "cafe\u0301"
		good := []string{
			strings.Repeat("k", 255), composed, decomposed, "K", "k", "a:b/c%d#e", "a b",
			strings.Repeat("é", 127) + "x", "\u200b", "0", "kk\u00adk",
			strings.Repeat("k", 254) + "a", strings.Repeat("k", 254) + "b",
		}
		for _, id := range good {
			if g := h.grant(t, begin(id, "")); g.GetAttemptNumber() != 1 {
				t.Errorf("%q met another key: attempt %d", id, g.GetAttemptNumber())
			}
		}
		bad := map[string]string{
			"empty": "", "256 bytes": strings.Repeat("k", 256), "256 bytes of é": strings.Repeat("é", 128),
			"2,705 bytes": strings.Repeat("k", 2705), "8,192 bytes": strings.Repeat("k", 8192),
			"a NUL": "a\x00b", "a newline": "a\nb", "a DEL": "a\x7fb", "a C1 control": "a\u0085b",
			"a space at the end": "k ", "a space at the start": " k", "white space only": " ",
			"a no-break space at the end": "k\u00a0", "an ideographic space at the start": "\u3000k",
		}
		for name, id := range bad {
			var trailer metadata.MD
			_, err := h.Begin(testContext(t), begin(id, ""), grpc.Trailer(&trailer))
			t.Run(name, func(t *testing.T) { wantInvalid(t, err, trailer, "key.id") })
		}
	})
}

func TestKeyPartsHaveTheirOwnLimits(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		for field, at := range map[string]*pb.Key{
			"":              {Tenant: strings.Repeat("t", 128), Operation: strings.Repeat("o", 256), Id: "1"},
			"key.tenant":    {Tenant: strings.Repeat("t", 129), Operation: "o", Id: "1"},
			"key.operation": {Tenant: "t", Operation: strings.Repeat("o", 257), Id: "1"},
		} {
			var trailer metadata.MD
			_, err := h.Get(testContext(t), &pb.GetRequest{Key: at}, grpc.Trailer(&trailer))
			if field == "" {
				wantReason(t, err, codes.NotFound, "KEY_NOT_FOUND")
				continue
			}
			wantInvalid(t, err, trailer, field)
		}
	})
}

// rawCodec sends bytes as they are, as a caller in a language that does not check
// its strings would.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func TestARequestThatCannotBeDecodedIsTheCallersFault(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{codec: grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})})
		inKey := func(num protowire.Number, b string) []byte {
			return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), b)
		}
		for field, raw := range map[string][]byte{
			"key.id":              inKey(1, string(inKey(1, "t"))+string(inKey(3, "a\xff"))),
			"key.tenant":          inKey(1, string(inKey(1, "\xc3\x28"))),
			"holder":              inKey(8, "\xf0\x28\x8c\x28"),
			"request":             {0xff, 0xff, 0xff},
			"requests[1].call_id": append(inKey(1, string(inKey(4, "fine"))), inKey(1, string(inKey(4, "\xff")))...),
		} {
			t.Run(field, func(t *testing.T) {
				method := pb.IdempotencyService_Begin_FullMethodName
				if strings.HasPrefix(field, "requests") {
					method = pb.IdempotencyService_BatchBegin_FullMethodName
				}
				var trailer metadata.MD
				err := h.conn.Invoke(testContext(t), method, raw, &pb.BeginResponse{}, grpc.Trailer(&trailer))
				wantInvalid(t, err, trailer, field)
			})
		}
	})
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
