package grpcguard_test

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

type account struct{ name string }

type accountKey struct{}

// authenticate stands for the interceptor that says who is calling.
func authenticate(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(context.WithValue(ctx, accountKey{}, account{"acme"}), request)
}

func tenant(ctx context.Context) (string, error) {
	caller, ok := ctx.Value(accountKey{}).(account)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "who is calling is not known")
	}
	return caller.name, nil
}

// A server whose annotated methods run once for each key.
func ExampleNew() {
	conn, err := grpc.NewClient("dns:///oncekeeper.internal:8460", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		slog.Error("dialling Oncekeeper", "error", err)
		return
	}
	defer conn.Close()
	guard, err := grpcguard.New(client.New(conn), grpcguard.Config{
		Tenant:       tenant,
		ReplayHeader: []string{"location"},
		Methods: map[string]grpcguard.Method{
			// Its handler asks for permission before it does anything.
			"testservice.v1.ChargeService/Charge": {Codes: map[codes.Code]oncekeeper.Settlement{
				codes.PermissionDenied: oncekeeper.SettledRetryable,
			}},
		},
	})
	if err != nil {
		slog.Error("guarding", "error", err)
		return
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(authenticate, guard.Unary()),
		grpc.ChainStreamInterceptor(guard.Stream()))
	defer server.Stop()
}

// A guarded handler takes its fencing token to its own tables, and says what it
// knows of a failure.
func ExampleAttemptFrom() {
	charge := func(ctx context.Context, _ *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
		token := int64(0)
		if attempt, ok := grpcguard.AttemptFrom(ctx); ok {
			token = attempt.Token()
		}
		err := writeCharge(ctx, token)
		if errors.Is(err, errOutOfStock) {
			return nil, oncekeeper.NotApplied(status.Error(codes.Unavailable, "out of stock: come back"))
		}
		if err != nil {
			// It is settled by its code. One of no gRPC status is UNKNOWN: nobody knows,
			// and the next attempt is told that it takes over.
			return nil, err
		}
		return &testservicev1.ChargeResponse{Name: "charges/ch_1"}, grpcguard.SetResource(ctx, "charges/ch_1")
	}
	_ = charge
}

var errOutOfStock = errors.New("out of stock")

func writeCharge(context.Context, int64) error { return nil }

// A client of a service that knows no keys: each order is placed once all the
// same, as long as what became of it is known.
func ExampleNewOutgoing() {
	conn, err := grpc.NewClient("dns:///oncekeeper.internal:8460", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		slog.Error("dialling Oncekeeper", "error", err)
		return
	}
	defer conn.Close()
	outgoing, err := grpcguard.NewOutgoing(client.New(conn), grpcguard.OutgoingConfig{
		Config: grpcguard.Config{
			Tenant: func(context.Context) (string, error) { return "fulfilment", nil },
			Methods: map[string]grpcguard.Method{
				"testservice.v1.ChargeService/Look": {Codes: map[codes.Code]oncekeeper.Settlement{
					codes.ResourceExhausted: oncekeeper.SettledRetryable, // its rate limit stands before it does anything
				}},
			},
		},
		Key: func(_ context.Context, _ string, request proto.Message) (string, error) {
			if order, ok := request.(*testservicev1.LookRequest); ok {
				return order.GetCharge(), nil
			}
			return "", nil
		},
	})
	if err != nil {
		slog.Error("guarding", "error", err)
		return
	}
	partner, err := grpc.NewClient("dns:///partner.example:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor(), outgoing.Unary()))
	if err != nil {
		slog.Error("dialling the partner", "error", err)
		return
	}
	defer partner.Close()
}
