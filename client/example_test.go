package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// chargeCard stands for what must happen once.
func chargeCard(ctx context.Context, token int64) (string, error) { return "ch_1", ctx.Err() }

var errDeclined = errors.New("card declined")

func ExampleDo() {
	conn, err := grpc.NewClient("dns:///oncekeeper:7411", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	keeper := client.New(conn)

	type Charge struct{ ID string }
	key := oncekeeper.Key{Tenant: "acme", Operation: "billing.charge", ID: "order-7/attempt-of-the-user"}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	charge, err := client.Do(ctx, keeper, key, func(ctx context.Context, a *client.Attempt) (Charge, error) {
		// ctx outlives the caller, and ends when the lease is lost.
		id, err := chargeCard(ctx, a.Token())
		if errors.Is(err, errDeclined) {
			return Charge{}, oncekeeper.Final(err) // later callers are told the same
		}
		return Charge{ID: id}, err // any other error: nobody knows
	}, client.WithRetention(24*time.Hour))

	switch {
	case errors.Is(err, oncekeeper.ErrInProgress):
		delay, _ := client.RetryDelay(err)
		fmt.Println("someone else is at it: ask again in", delay)
	case errors.Is(err, oncekeeper.ErrUnresolved):
		fmt.Println("nobody knows whether it happened: someone must look")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(charge.ID)
	}
}

// A takeover looks before it does again what may have happened.
func ExampleAttempt_Takeover() {
	var keeper *client.Client // client.New(conn)
	lookUp := func(ctx context.Context, orderID string) (string, bool) { return "", false }

	_ = func(ctx context.Context, key oncekeeper.Key, orderID string) (string, error) {
		return client.Do(ctx, keeper, key, func(ctx context.Context, a *client.Attempt) (string, error) {
			if a.Takeover() {
				if id, found := lookUp(ctx, orderID); found {
					return id, nil
				}
			}
			return chargeCard(ctx, a.Token())
		})
	}
}

// Run is for guards: it knows no types, and says what became of the request.
func ExampleClient_Run() {
	var keeper *client.Client // client.New(conn)

	_ = func(ctx context.Context, key oncekeeper.Key, handle func(context.Context) ([]byte, error)) ([]byte, error) {
		result, err := keeper.Run(ctx, client.Request{Key: key}, func(ctx context.Context, _ *client.Attempt) client.Ended {
			body, err := handle(ctx)
			if err != nil {
				return client.Ended{As: oncekeeper.SettlementOf(err), Status: client.StatusOf(err)}
			}
			return client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{Body: body}}
		})
		switch {
		case err != nil:
			return nil, err
		case result.InProgress != nil:
			return nil, oncekeeper.ErrInProgress
		case result.Unresolved != nil:
			return nil, oncekeeper.ErrUnresolved
		}
		response, failure := result.Ended.Response, result.Ended.Status
		if !result.Ran {
			response, failure = result.Outcome.Response, result.Outcome.Status
		}
		if failure != nil {
			return nil, client.GRPCStatus(failure).Err()
		}
		return response.Body, nil
	}
}

// A server whose guard answers first is stopped in this order.
func ExampleClient_Drain() {
	var conn *grpc.ClientConn // grpc.NewClient(…)
	keeper := client.New(conn, client.WithMaxAnsweredFirst(1000))

	_ = func(guarded *grpc.Server) error {
		guarded.GracefulStop() // nobody is answered any more
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(keeper.Drain(ctx), conn.Close())
	}
}
