package grpcguard

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
)

// Guard guards the handlers of a gRPC server. It may be used by several.
type Guard struct{ once *once }

// New makes a guard that asks keeper, or gives all that is wrong with cfg and
// with the annotations of the linked protos: a method that is a stream or says
// NO_SIDE_EFFECTS, a key_field or fingerprint_ignore that its request has not, a
// duration or number below its bounds. Each is named by its method.
func New(keeper *client.Client, cfg Config) (*Guard, error) {
	o, err := newOnce(keeper, cfg, handlerAnswers)
	if err != nil {
		return nil, err
	}
	return &Guard{once: o}, nil
}

// Stats gives what was counted so far.
func (g *Guard) Stats() Stats { return g.once.stats.read() }

// Unary is the interceptor. An interceptor outside it gets the response as a
// proto.Message that reads like the handler's and marshals to the kept bytes; the
// handler's own type is response.(proto.Message).ProtoReflect().Interface().
//
// Inside a guarded handler grpc.SetSendCompressor and
// grpc.ClientSupportedCompressors fail: they know gRPC's own stream alone.
func (g *Guard) Unary() grpc.UnaryServerInterceptor { return g.unary }

// Stream is the interceptor that lets streams pass and counts them.
func (g *Guard) Stream() grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		g.once.stats.streams.Add(1)
		return handler(srv, stream)
	}
}

func (g *Guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m := g.once.methods[info.FullMethod]
	if m == nil {
		g.once.stats.notGuarded.Add(1)
		return handler(ctx, request)
	}
	message, key, err := m.incoming(ctx, request)
	switch {
	case err != nil:
		g.once.stats.refused.Add(1)
		return refused(ctx, err)
	case key == "" && m.required:
		g.once.stats.refused.Add(1)
		return refused(ctx, callkey.Refuse(m.operation, m.keyPlace(), "is required"))
	case key == "":
		g.once.stats.keyless.Add(1)
		return handler(ctx, request)
	}
	stream := &capture{caller: grpc.ServerTransportStreamFromContext(ctx), method: info.FullMethod}
	a, err := g.once.do(ctx, call{method: m, key: key, request: message, set: stream.taken, run: func(ctx context.Context) given {
		response, err := handler(grpc.NewContextWithServerTransportStream(ctx, stream), request)
		header, trailer := stream.taken()
		return given{response: response, err: err, header: header, trailer: trailer}
	}})
	switch {
	case err != nil:
		return refused(ctx, err)
	case a.replayed:
		giveReplay(ctx, a)
	default:
		stream.release()
	}
	if message, ok := a.response.(proto.Message); ok && a.err == nil && a.body != nil {
		return pin(message, a.body), nil
	}
	return a.response, a.err
}

// giveReplay gives a replay's header and trailer to its caller, the mark first and
// by itself: whatever the transport does not take, the answer is what counts.
func giveReplay(ctx context.Context, a answer) {
	_ = grpc.SetHeader(ctx, metadata.MD{replayedHeader: a.header[replayedHeader]})
	rest := a.header.Copy()
	delete(rest, replayedHeader)
	_ = grpc.SetHeader(ctx, rest)
	_ = grpc.SetTrailer(ctx, a.trailer)
}

// incoming gives the request as a message, and the call's key; "" for none.
func (m *method) incoming(ctx context.Context, request any) (proto.Message, string, error) {
	message, ok := request.(proto.Message)
	var inField []string
	if ok && m.keyField != "" {
		var err error
		inField, err = callkey.ReadField(request, m.keyField)
		ok = err == nil
	}
	if !ok {
		return nil, "", status.Errorf(codes.Internal, "grpcguard: a request of %s is a %T, which is not what its proto says", m.operation, request)
	}
	key, _, err := callkey.Agree(m.operation,
		callkey.Named{Place: callkey.Metadata, Keys: metadata.ValueFromIncomingContext(ctx, callkey.Metadata)},
		callkey.Named{Place: m.keyField, Keys: inField})
	return message, key, err
}

// refused answers with the error and what it says in the trailer. Nothing is set
// in the header, so that gRPC sends trailers alone, which its own retries need.
func refused(ctx context.Context, err error) (any, error) {
	_ = grpc.SetTrailer(ctx, refusalTrailer(err))
	return nil, err
}
