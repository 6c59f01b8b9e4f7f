package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/storagetest"
)

// keyParts are the parts of a key, by their number in the message.
var keyParts = []struct {
	name  string
	num   protowire.Number
	limit int
}{{"tenant", 1, 128}, {"operation", 2, 256}, {"id", 3, 255}}

// badParts are what no part of a key may be, and the description of what is wrong
// with each.
func badParts(limit int) map[string][2]string {
	tooLong := func(n int) string { return fmt.Sprintf("has %d bytes; at most %d are taken", n, limit) }
	const (
		control = "has a control character"
		space   = "has white space at an end"
		notUTF8 = "is not valid UTF-8"
	)
	wide := strings.Repeat("é", limit/2+1)
	return map[string][2]string{
		"empty":                           {"", "is required"},
		"a byte over its limit":           {strings.Repeat("k", limit+1), tooLong(limit + 1)},
		"a letter over its limit":         {wide, tooLong(len(wide))},
		"more than an index takes":        {strings.Repeat("k", 2705), tooLong(2705)},
		"more than a page takes":          {strings.Repeat("k", 8192), tooLong(8192)},
		"more than a header takes":        {strings.Repeat("k", 64<<10), tooLong(64 << 10)},
		"too long of a NUL":               {strings.Repeat("\x00", 300), tooLong(300)},
		"a NUL":                           {"\x00", control},
		"a NUL inside":                    {"a\x00b", control},
		"a NUL at the end":                {"a\x00", control},
		"a newline":                       {"a\nb", control},
		"a newline at the end":            {"a\n", control},
		"a tab at the start":              {"\ta", control},
		"a DEL":                           {"a\x7fb", control},
		"a C1 control":                    {"a\u0085b", control},
		"a space at the end":              {"k ", space},
		"a space at the start":            {" k", space},
		"white space only":                {" ", space},
		"a no-break space at the end":     {"k\u00a0", space},
		"an ideographic space at a start": {"\u3000k", space},
		"a line separator at the end":     {"k\u2028", space},
		"a byte that is no letter":        {"a\xff", notUTF8},
		"a letter cut short":              {"caf\xc3", notUTF8},
		"a letter spelt too long":         {"\xc0\xaf", notUTF8},
		"a NUL spelt too long":            {"a\xc0\x80", notUTF8},
		"half of a pair":                  {"\xed\xa0\x80", notUTF8},
		"past the last letter":            {"\xf4\x90\x80\x80", notUTF8},
	}
}

// keyedCall is a call about a key, as bytes: some keys fit no message.
type keyedCall struct {
	method string
	// in gives the request for a key.
	in func(key []byte) []byte
	// out is where the answer goes, and item the error in it: nil for a call that is
	// no batch.
	out  proto.Message
	item func() *pb.BatchError
	// path of the key in the request.
	path string
}

// message is a message's field that holds another.
func message(num protowire.Number, of []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), of)
}

// with gives m with a key, which is field 1 of every request.
func with(m proto.Message) func(key []byte) []byte {
	rest, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return func(key []byte) []byte { return append(message(1, key), rest...) }
}

func keyedCalls() []keyedCall {
	begin := with(&pb.BeginRequest{Fingerprint: []byte("f"), CallId: "c"})
	complete := with(&pb.CompleteRequest{FencingToken: 1})
	fail := with(&pb.FailRequest{FencingToken: 1, Disposition: pb.FailRequest_DISPOSITION_UNKNOWN})
	var begun pb.BatchBeginResponse
	var settled pb.BatchSettleResponse
	settledItem := func() *pb.BatchError { return settled.GetResults()[0].GetError() }
	return []keyedCall{
		{pb.IdempotencyService_Begin_FullMethodName, begin, &pb.BeginResponse{}, nil, "key"},
		{pb.IdempotencyService_Renew_FullMethodName, with(&pb.RenewRequest{FencingToken: 1}), &pb.RenewResponse{}, nil, "key"},
		{pb.IdempotencyService_Complete_FullMethodName, complete, &pb.CompleteResponse{}, nil, "key"},
		{pb.IdempotencyService_Fail_FullMethodName, fail, &pb.FailResponse{}, nil, "key"},
		{pb.IdempotencyService_Get_FullMethodName, with(&pb.GetRequest{}), &pb.GetResponse{}, nil, "key"},
		{
			pb.IdempotencyService_BatchBegin_FullMethodName, func(key []byte) []byte { return message(1, begin(key)) },
			&begun, func() *pb.BatchError { return begun.GetResults()[0].GetError() }, "requests[0].key",
		},
		{
			pb.IdempotencyService_BatchSettle_FullMethodName, func(key []byte) []byte { return message(1, message(1, complete(key))) },
			&settled, settledItem, "settlements[0].complete.key",
		},
		{
			pb.IdempotencyService_BatchSettle_FullMethodName, func(key []byte) []byte { return message(1, message(2, fail(key))) },
			&settled, settledItem, "settlements[0].fail.key",
		},
	}
}

// verdict is all that a caller is told of a key that is not taken.
type verdict struct {
	code    codes.Code
	reason  string
	field   string
	message string
}

// goodOperation is that of keys whose other parts are bad.
const goodOperation = "o"

// judge makes the call, and gives what a caller is told.
func (c keyedCall) judge(t *testing.T, h *harness, key []byte) (got verdict) {
	t.Helper()
	var trailer metadata.MD
	err := h.conn.Invoke(testContext(t), c.method, c.in(key), c.out, grpc.Trailer(&trailer))
	if err == nil && c.item != nil {
		e := c.item()
		return verdict{codes.Code(e.GetCode()), e.GetReason().String(), "", e.GetMessage()}
	}
	st := status.Convert(err)
	got.code, got.message = st.Code(), st.Message()
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			got.reason = "ERROR_REASON_" + d.GetReason()
			if told := trailer.Get("oncekeeper-reason"); !slices.Equal(told, []string{d.GetReason()}) {
				t.Errorf("%s: the trailer says %v", c.method, told)
			}
			if told := d.GetMetadata()["operation"]; told != "" && told != goodOperation {
				t.Errorf("%s: the error repeats a refused operation of %d bytes", c.method, len(told))
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				got.field += v.GetField()
			}
		}
	}
	return got
}

func TestEveryBadKeyIsRefusedAlikeByEveryCallOnEveryStore(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		var store storage.Store
		h := start(t, on, setup{
			codec: grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}),
			store: func(s storage.Store) storage.Store { store = s; return s },
		})
		for i, part := range keyParts {
			for name, bad := range badParts(part.limit) {
				values := []string{"t", goodOperation, "1"}
				values[i] = bad[0]
				var key []byte
				for j, p := range keyParts {
					key = append(key, message(p.num, []byte(values[j]))...)
				}
				for _, call := range keyedCalls() {
					field := call.path + "." + part.name
					want := verdict{
						code: codes.InvalidArgument, reason: pb.ErrorReason_ERROR_REASON_INVALID_REQUEST.String(),
						field: field, message: oncekeeper.ErrInvalidRequest.Error() + ": " + field + ": " + bad[1],
					}
					if call.item != nil && bad[1] != "is not valid UTF-8" {
						want.field = "" // an item has none
					}
					if got := call.judge(t, h, key); got != want {
						t.Errorf("%s of a %s that is %s:\n got %+v\nwant %+v", call.method, part.name, name, got, want)
					}
				}
			}
		}
		if left, err := store.List(testContext(t), storage.ListQuery{Limit: 1}); err != nil || len(left.Records) > 0 {
			t.Errorf("the bad keys left %v, %v", left.Records, err)
		}
	})
}

func TestOddKeysAreRecordsOfTheirOwn(t *testing.T) {
	onEveryStore(t, func(t *testing.T, on records) {
		h := start(t, on, setup{})
		keys := storagetest.OddKeys()
		body := func(i int) []byte { return fmt.Appendf(nil, "answer %d", i) }
		var batch []*pb.BeginRequest
		for i, k := range keys {
			req := &pb.BeginRequest{Key: &pb.Key{Tenant: k.Tenant, Operation: k.Operation, Id: k.ID}, CallId: fmt.Sprint(i)}
			batch = append(batch, req)
			if i%2 == 1 {
				continue // begun in a batch
			}
			if g := h.grant(t, req); g.GetAttemptNumber() != 1 || g.GetTakeover() {
				t.Errorf("%q met another key: %v", k, g)
			}
		}
		begun, err := h.BatchBegin(testContext(t), &pb.BatchBeginRequest{Requests: batch})
		if err != nil {
			t.Fatal(err)
		}
		var tokens []int64
		for i, res := range begun.GetResults() {
			g := res.GetResponse().GetGrant()
			tokens = append(tokens, g.GetFencingToken())
			if g.GetAttemptNumber() != 1 {
				t.Errorf("%q met another key: %v", keys[i], res)
			}
			_, err := h.Complete(testContext(t), &pb.CompleteRequest{
				Key: batch[i].GetKey(), FencingToken: g.GetFencingToken(), Response: &pb.StoredResponse{Body: body(i)},
			})
			if err != nil {
				t.Errorf("completing %q: %v", keys[i], err)
			}
		}
		for i, req := range batch {
			req.CallId = ""
			res, err := h.Begin(testContext(t), req)
			if got := res.GetOutcome().GetResponse().GetBody(); !slices.Equal(got, body(i)) {
				t.Errorf("%q replays %q, %v", keys[i], got, err)
			}
			got, err := h.Get(testContext(t), &pb.GetRequest{Key: req.GetKey()})
			if err != nil || !proto.Equal(got.GetRecord().GetKey(), req.GetKey()) || got.GetRecord().GetFencingToken() != tokens[i] {
				t.Errorf("Get of %q gives %v, %v", keys[i], got, err)
			}
		}
	})
}
