package attach_test

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

// A client of a guarded service: the key is the order's own identifier, so that
// a restart asks for the same charge and not for a second one.
func Example() {
	conn, err := grpc.NewClient("dns:///charges.internal:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor(attach.WithRetryUnavailable())))
	if err != nil {
		slog.Error("dialling", "error", err)
		return
	}
	defer conn.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	charges := testservicev1.NewChargeServiceClient(conn)
	charge, err := charges.Charge(ctx, &testservicev1.ChargeRequest{Cents: 1250}, attach.Key("order-1742"))
	if err != nil {
		slog.Error("charging", "error", err)
		return
	}
	slog.Info("charged", "name", charge.GetName())
}

// A service whose proto has no annotations yet: its methods are named here.
func ExampleWithKeyField() {
	interceptor := attach.UnaryClientInterceptor(
		attach.WithKeyField("legacy.v1.Orders/Place", "request_id"),
		attach.WithMethods(func(operation string) bool { return operation == "legacy.v1.Orders/Cancel" }))
	_ = grpc.WithChainUnaryInterceptor(interceptor)
}

// A transfer is made of two calls and a mail. Whoever runs it again makes them with
// the same keys.
func ExampleStep() {
	var charges testservicev1.ChargeServiceClient // on a connection with UnaryClientInterceptor
	var keeper *client.Client                     // client.New(conn)
	mail := func(ctx context.Context, idempotencyKey string) error { return ctx.Err() }

	_ = func(ctx context.Context, order string) (string, error) {
		key := oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: order}
		return client.Do(ctx, keeper, key, func(ctx context.Context, _ *client.Attempt) (string, error) {
			if _, err := charges.Charge(attach.Step(ctx, "debit"), &testservicev1.ChargeRequest{Cents: 1000}); err != nil {
				return "", err
			}
			if _, err := charges.Charge(attach.Step(ctx, "fee"), &testservicev1.ChargeRequest{Cents: 15}); err != nil {
				return "", err
			}
			mailKey, err := attach.DeriveKey(ctx, "mail")
			if err != nil {
				return "", err
			}
			return "done", mail(ctx, mailKey)
		})
	}
}
