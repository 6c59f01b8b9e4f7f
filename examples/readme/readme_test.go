// Package readme holds the code that the README shows, so that it compiles, runs,
// and is what the README says.
package readme_test

import (
	"context"
	"database/sql"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/oncetest"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

var plaintext = grpc.WithTransportCredentials(insecure.NewCredentials())

// README: guard
func servePayments(lis net.Listener, oncekeeperConn *grpc.ClientConn) error {
	guard, err := grpcguard.New(client.New(oncekeeperConn), grpcguard.Config{
		// Whose key it is: from your own authentication, never from the request.
		Tenant: func(ctx context.Context) (string, error) { return accountOf(ctx) },
	})
	if err != nil {
		return err // an annotation that cannot be kept is told at start
	}
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(authenticate, guard.Unary()),
		grpc.ChainStreamInterceptor(guard.Stream()))
	paymentsv1.RegisterPaymentServiceServer(srv, &payments{})
	return srv.Serve(lis)
}

func (p *payments) Debit(ctx context.Context, req *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	if closed(req.GetAccount()) {
		return nil, oncekeeper.NotApplied(errClosed) // nothing was done: the next attempt may run
	}
	return p.debit(ctx, req) // UNAVAILABLE and the like: nobody knows, and the next attempt is told so
}

// README: end

// README: call
func payOnce(ctx context.Context, address string) (*paymentsv1.DebitResponse, error) {
	conn, err := grpc.NewClient(address, plaintext,
		grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor(attach.WithRetryUnavailable())))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return paymentsv1.NewPaymentServiceClient(conn).Debit(ctx,
		&paymentsv1.DebitRequest{RequestId: "order-17", Account: "acme", Amount: 10})
}

// README: end

// README: do
func handle(ctx context.Context, keeper *client.Client, m message) error {
	key := oncekeeper.Key{Tenant: "acme", Operation: "invoices.send", ID: m.ID}
	_, err := client.Do(ctx, keeper, key, func(ctx context.Context, a *client.Attempt) (string, error) {
		return send(ctx, m, a.Token())
	})
	return err
}

// README: end

// README: receipt
func (s *shop) place(ctx context.Context, keeper *client.Client, order string, cents int64) (string, error) {
	key := oncekeeper.Key{Tenant: "acme", Operation: "orders.place", ID: order}
	return client.Do(ctx, keeper, key, func(ctx context.Context, _ *client.Attempt) (string, error) {
		return sqlreceipt.InTx(ctx, s.receipts, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO charges (customer_order, cents) VALUES ($1, $2)", order, cents)
			return "charged " + order, err
		})
	}, client.WithReceipts(s.receipts))
}

// README: end

// README: in your process
func openKeeper(dir string) (*inprocess.Keeper, error) {
	store, err := pebble.Open(pebble.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	return inprocess.Open(inprocess.Config{Store: store})
}

// README: end

func TestTheReadmeShowsThisCode(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(source), "\n// README: ")
	shown := 0
	for _, part := range parts[1:] {
		name, code, _ := strings.Cut(part, "\n")
		if name == "end" {
			continue
		}
		shown++
		if want := "```go\n" + strings.TrimSpace(code) + "\n```"; !strings.Contains(string(readme), want) {
			t.Errorf("the README does not show %q as it is here: put in\n%s", name, want)
		}
	}
	if shown != 5 {
		t.Errorf("%d pieces are marked here, want 5", shown)
	}
}

func TestTheReadmesPaymentIsMadeOnce(t *testing.T) {
	keeper := oncetest.Start(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- servePayments(lis, keeper.Dial()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	debits, sent = 0, 0
	for range 3 {
		got, err := payOnce(ctx, lis.Addr().String())
		if err != nil || got.GetName() != "debits/1" {
			t.Fatalf("it answers %v, %v", got, err)
		}
	}
	for range 3 {
		if err := handle(ctx, client.New(keeper.Dial()), message{ID: "m-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if debits != 1 || sent != 1 {
		t.Errorf("%d debits and %d messages were made of three calls each, want 1 and 1", debits, sent)
	}
	_ = lis.Close()
	<-served
}

func TestTheReadmesKeeperNeedsNoService(t *testing.T) {
	keeper, err := openKeeper(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent = 0
	for range 3 {
		if err := handle(ctx, keeper.Client(), message{ID: "m-2"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := keeper.Close(ctx); err != nil || sent != 1 {
		t.Errorf("%d messages were sent, want 1; Close: %v", sent, err)
	}
}

func TestTheReadmesOrderIsChargedOnceAlsoWhereTheServiceIsLost(t *testing.T) {
	s := newShop(t)
	for range 2 {
		keeper := oncetest.Start(t) // one that knows nothing
		for range 2 {
			if got, err := s.place(t.Context(), keeper.Client(), "order-17", 999); got != "charged order-17" || err != nil {
				t.Fatalf("it answers %q, %v", got, err)
			}
		}
	}
	if n := s.charges(t); n != 1 {
		t.Errorf("the order was charged %d times, want once", n)
	}
}
