package attach_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/oncekeeper/oncekeeper/client/attach"
)

func TestAKeyFieldThatIsOneOfAOneofIsRefused(t *testing.T) {
	interceptor := attach.UnaryClientInterceptor(attach.WithKeyField("legacy.v1.Values/Set", "string_value"))
	sent := func(_ context.Context, _ string, request, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		t.Errorf("%v was sent: the key took the place of what the caller set", request)
		return nil
	}
	err := interceptor(t.Context(), "/legacy.v1.Values/Set", structpb.NewNumberValue(7), nil, nil, sent)
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "legacy.v1.Values/Set") || !strings.Contains(err.Error(), "oneof") {
		t.Errorf("error %v, want INTERNAL that names the method and says why", err)
	}
}
