package server_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

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
