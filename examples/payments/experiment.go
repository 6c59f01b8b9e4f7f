package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

const (
	account = "accounts/1"
	opening = 1000
	debits  = 50
	amount  = 10
	workers = 4

	loopback   = "127.0.0.1:0"
	stopWithin = 10 * time.Second
)

// way is one way to write the service.
type way struct {
	name    string
	handler func(service) paymentsv1.PaymentServiceServer
	// guarded: the handler stands behind a guard, and its callers use attach.
	guarded bool
}

// try sends a way all the messages, and counts what it did.
func (w way) try(ctx context.Context, dir string) (r result, err error) {
	trouble, twins := newTrouble(), newTwins()
	bank, err := openBank(ctx, filepath.Join(dir, w.name+".db"), trouble)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, bank.db.Close()) }()
	if err := bank.openAccount(ctx, account, opening); err != nil {
		return result{}, fmt.Errorf("opening the account: %w", err)
	}
	inServer, inCaller := []grpc.UnaryServerInterceptor{twins.answered}, sendAgain
	var keeper *keeper
	if w.guarded {
		keeper, err = startKeeper(filepath.Join(dir, w.name+".oncekeeper"), twins)
		if err != nil {
			return result{}, err
		}
		defer func() { err = errors.Join(err, keeper.stop()) }()
		inServer, inCaller = append(inServer, keeper.guard.Unary()), attached()
	}
	conn, stop, err := serve(w.handler(service{bank: bank, twins: twins}), inServer, inCaller, trouble.loseAnswers)
	if err != nil {
		return result{}, err
	}
	defer stop()

	payments := paymentsv1.NewPaymentServiceClient(conn)
	r = result{way: w.name, guarded: w.guarded}
	if r.unlike, err = sendAll(ctx, payments); err != nil {
		return result{}, err
	}
	if w.guarded {
		r.guard = keeper.guard.Stats()
	}
	err = r.count(ctx, payments, bank)
	return r, err
}

// serve puts a handler behind interceptors and on loopback, and connects to it.
func serve(
	handler paymentsv1.PaymentServiceServer, inServer []grpc.UnaryServerInterceptor, inCaller ...grpc.UnaryClientInterceptor,
) (conn *grpc.ClientConn, stop func(), err error) {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(inServer...))
	paymentsv1.RegisterPaymentServiceServer(server, handler)
	listener, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, nil, err
	}
	conn, err = grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(inCaller...))
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	go func() { _ = server.Serve(listener) }()
	return conn, func() {
		_ = conn.Close()
		server.Stop()
	}, nil
}

// sendAll sends each debit twice, in a row, to whichever workers are free. It
// gives how many debits had their two messages answered differently.
func sendAll(ctx context.Context, payments paymentsv1.PaymentServiceClient) (unlike int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	messages := make(chan *paymentsv1.DebitRequest)
	group.Go(func() error {
		defer close(messages)
		for message := range 2 * debits {
			debit := &paymentsv1.DebitRequest{RequestId: requestIDOf(message/2 + 1), Account: account, Amount: amount}
			select {
			case messages <- debit:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	var mu sync.Mutex
	answers := map[string]*paymentsv1.DebitResponse{}
	for range workers {
		group.Go(func() error {
			for message := range messages {
				answer, err := payments.Debit(ctx, message)
				if err != nil {
					return fmt.Errorf("%s: %w", message.GetRequestId(), err)
				}
				mu.Lock()
				if other := answers[message.GetRequestId()]; other != nil && !proto.Equal(answer, other) {
					unlike++
				}
				answers[message.GetRequestId()] = answer
				mu.Unlock()
			}
			return nil
		})
	}
	err = group.Wait()
	return unlike, err
}
