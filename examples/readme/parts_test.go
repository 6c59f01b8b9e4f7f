package readme_test

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// What the README leaves to its reader.

type payments struct {
	paymentsv1.UnimplementedPaymentServiceServer
}

type message struct{ ID string }

var (
	debits, sent int
	errClosed    = errors.New("the account is closed")
)

func closed(account string) bool { return account == "" }

func (p *payments) debit(context.Context, *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	debits++
	return &paymentsv1.DebitResponse{Name: fmt.Sprintf("debits/%d", debits)}, nil
}

func send(_ context.Context, _ message, token int64) (string, error) {
	sent++
	return fmt.Sprint("sent under token ", token), nil
}

type accountKey struct{}

func authenticate(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(context.WithValue(ctx, accountKey{}, "acme"), req)
}

func accountOf(ctx context.Context) (string, error) {
	account, ok := ctx.Value(accountKey{}).(string)
	if !ok {
		return "", errors.New("nobody is authenticated")
	}
	return account, nil
}
