package oncetest_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// serveOn stands for how your tests serve a grpc.Server and dial it.
func serveOn(testing.TB, *grpc.Server, ...grpc.DialOption) paymentsv1.PaymentServiceClient {
	return nil
}

// A test of yours that your handler has one effect, whatever happens to its calls.
func ExampleOneEffect() {
	_ = func(t *testing.T) {
		oncetest.OneEffect(t, func(t testing.TB, trial *oncetest.Trial) oncetest.Subject {
			b := &bank{} // the fake of what your handler changes, made anew for each kind of trouble
			guard, err := grpcguard.New(trial.Client(), grpcguard.Config{Tenant: tenant})
			if err != nil {
				t.Fatal(err)
			}
			srv := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary(), trial.UnaryServer()))
			paymentsv1.RegisterPaymentServiceServer(srv, debits{pay: func(ctx context.Context) error {
				a, _ := grpcguard.AttemptFrom(ctx)
				return b.payFenced(ctx, a)
			}})
			c := serveOn(t, srv, grpc.WithUnaryInterceptor(attach.UnaryClientInterceptor(attach.WithMaxElapsed(0))))
			return oncetest.Subject{
				Call: func(ctx context.Context) error {
					_, err := c.Debit(ctx, &paymentsv1.DebitRequest{RequestId: "order-17", Account: "acme", Amount: 10})
					return err
				},
				Effects: b.effects,
			}
		})
	}
}
