package grpcguard_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

const (
	chargeOp  = "testservice.v1.ChargeService/Charge"
	refundOp  = "testservice.v1.ChargeService/Refund"
	captureOp = "testservice.v1.ChargeService/Capture"
	lookOp    = "testservice.v1.ChargeService/Look"
)

func dial(t testing.TB, listener *bufconn.Listener, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///bufconn", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// service runs what a test gives it, and counts. What it is not given answers OK.
type service struct {
	testservicev1.UnimplementedChargeServiceServer
	charge  func(context.Context, *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error)
	refund  func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error)
	capture func(context.Context, *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error)

	mu  sync.Mutex
	ran int
}

func (s *service) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran++
}

// runs is how often a handler was run.
func (s *service) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran
}

func (s *service) Charge(ctx context.Context, r *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
	s.run()
	if s.charge != nil {
		return s.charge(ctx, r)
	}
	return &testservicev1.ChargeResponse{Name: "charges/1"}, nil
}

func (s *service) Refund(ctx context.Context, r *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
	s.run()
	if s.refund != nil {
		return s.refund(ctx, r)
	}
	return &testservicev1.RefundResponse{Name: "refunds/1"}, nil
}

func (s *service) Capture(ctx context.Context, r *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
	s.run()
	if s.capture != nil {
		return s.capture(ctx, r)
	}
	return &testservicev1.CaptureResponse{Name: "captures/1"}, nil
}

func (s *service) Look(context.Context, *testservicev1.LookRequest) (*testservicev1.LookResponse, error) {
	s.run()
	return &testservicev1.LookResponse{}, nil
}

func (s *service) Watch(_ *testservicev1.WatchRequest, stream grpc.ServerStreamingServer[testservicev1.WatchResponse]) error {
	s.run()
	if err := stream.Send(&testservicev1.WatchResponse{}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the stream broke")
}

func acme(context.Context) (string, error) { return "acme", nil }

// guarded is a service behind a guard, and a client of it.
type guarded struct {
	testservicev1.ChargeServiceClient
	guard    *grpcguard.Guard
	listener *bufconn.Listener
	keeper   *keeper
}

// serve puts s behind a guard that waits for nobody unless cfg says otherwise.
func serve(t testing.TB, k *keeper, s *service, cfg grpcguard.Config, options ...grpc.DialOption) *guarded {
	t.Helper()
	if cfg.Tenant == nil {
		cfg.Tenant = acme
	}
	if cfg.Wait == 0 {
		cfg.Wait = -1
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	guard, err := grpcguard.New(k.Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	recoverPanics := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
		defer func() {
			if fault := recover(); fault != nil {
				err = status.Errorf(codes.Internal, "recovered %v", fault)
			}
		}()
		return handler(ctx, request)
	}
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(recoverPanics, guard.Unary()), grpc.ChainStreamInterceptor(guard.Stream()),
		grpc.MaxSendMsgSize(64<<20), grpc.MaxRecvMsgSize(64<<20))
	testservicev1.RegisterChargeServiceServer(srv, s)
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	conn := dial(t, listener, append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
	return &guarded{ChargeServiceClient: testservicev1.NewChargeServiceClient(conn), guard: guard, listener: listener, keeper: k}
}

// keyed gives the test's context with the keys as metadata.
func keyed(t testing.TB, keys ...string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	for _, k := range keys {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", k)
	}
	return ctx
}

// reply is all that a caller sees of an answer.
type reply struct {
	err             error
	header, trailer metadata.MD
}

func (r *reply) options() []grpc.CallOption {
	return []grpc.CallOption{grpc.Header(&r.header), grpc.Trailer(&r.trailer)}
}

func (r *reply) replayed() bool { return len(r.header["idempotency-replayed"]) == 1 }

// refund calls Refund with a key.
func (g *guarded) refundOnce(t testing.TB, key string) (*testservicev1.RefundResponse, reply) {
	t.Helper()
	var r reply
	response, err := g.Refund(keyed(t, key), &testservicev1.RefundRequest{Charge: "charges/1"}, r.options()...)
	r.err = err
	return response, r
}

// refused is what a refusal of the guard tells its caller.
type refused struct {
	text     string
	delay    time.Duration
	metadata map[string]string
}

// refusal reads err as an error of the guard, and fails the test where it is
// none of sentinel about operation.
func refusal(t testing.TB, err, sentinel error, operation string, code codes.Code) refused {
	t.Helper()
	var e *wire.Error
	if !errors.As(wire.FromError(err, nil), &e) || !errors.Is(e, sentinel) || e.Operation != operation || status.Code(err) != code {
		t.Fatalf("the answer is %v, want %v with %v about %s", err, code, sentinel, operation)
	}
	return refused{text: e.Error(), delay: e.RetryDelay, metadata: e.Metadata}
}

// mustBe fails the test where a call is not answered with code.
func mustBe(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("the answer is %v, want %v", err, code)
	}
}

func info(operation string) *grpc.UnaryServerInfo {
	return &grpc.UnaryServerInfo{FullMethod: "/" + operation}
}

// incoming is a server's context of a call with the key, without a transport.
func incoming(t testing.TB, key string) context.Context {
	t.Helper()
	return metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", key))
}
