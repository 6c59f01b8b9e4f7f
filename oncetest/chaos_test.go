package oncetest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

// nothing is an interceptor that does nothing.
func nothing(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, request)
}

func TestCallsThatAreSentTwiceAndLostAreAnsweredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		chaos grpc.UnaryClientInterceptor
		sent  int
	}{
		"twice":         {oncetest.SendTwice(), 2},
		"twice at once": {oncetest.SendTwiceAtOnce(), 2},
		"lost twice":    {oncetest.LoseAnswers(2), 3},
	} {
		t.Run(name, func(t *testing.T) {
			keeper := oncetest.Start(t)
			var mu sync.Mutex
			keys := map[string]int{}
			counting := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
				md, _ := metadata.FromOutgoingContext(ctx)
				mu.Lock()
				keys[strings.Join(md.Get("idempotency-key"), ",")]++
				mu.Unlock()
				return invoke(ctx, method, request, reply, conn, options...)
			}
			b := &bank{}
			c1 := serve(t, keeper.Client(), nothing, func(ctx context.Context) error { return b.pay(ctx, nil) },
				attach.UnaryClientInterceptor(attach.WithRetryUnavailable(), attach.WithDelays(time.Millisecond, time.Millisecond)), c.chaos, counting)
			var header metadata.MD
			got, err := c1.Debit(t.Context(), &paymentsv1.DebitRequest{Account: "acme"}, grpc.Header(&header))
			if err != nil || got.GetName() != "debits/1" || b.effects() != 1 {
				t.Errorf("it is answered %v, %v after %d effects", got, err, b.effects())
			}
			if len(keys) != 1 {
				t.Errorf("it was sent with the keys %v, want one", keys)
			}
			for key, sent := range keys {
				if sent < c.sent || key == "" {
					t.Errorf("it was sent %d times with the key %q, want %d at least", sent, key, c.sent)
				}
			}
		})
	}
}

func TestATwinNeitherTouchesTheReplyNorGoesWithoutItsOptions(t *testing.T) {
	type secret struct{ grpc.EmptyCallOption }
	var mu sync.Mutex
	calls, withSecret := 0, 0
	invoke := func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, options ...grpc.CallOption) error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		for _, o := range options {
			switch o := o.(type) {
			case secret:
				withSecret++
			case grpc.HeaderCallOption:
				*o.HeaderAddr = metadata.Pairs("call", "told")
			}
		}
		reply.(*paymentsv1.DebitResponse).Name = "answered"
		if calls == 2 {
			return status.Error(codes.Aborted, "in progress")
		}
		return nil
	}
	for name, twice := range map[string]grpc.UnaryClientInterceptor{"in sequence": oncetest.SendTwice(), "at once": oncetest.SendTwiceAtOnce()} {
		calls, withSecret = 0, 0
		var header metadata.MD
		var reply paymentsv1.DebitResponse
		err := twice(t.Context(), "/p.S/M", &paymentsv1.DebitRequest{}, &reply, nil, invoke, secret{}, grpc.Header(&header))
		if calls != 2 || withSecret != 2 || len(header.Get("call")) != 1 {
			t.Errorf("%s: %d calls, %d with the caller's options, and the header %v", name, calls, withSecret, header)
		}
		if atOnce := name == "at once"; (err == nil) != atOnce || reply.GetName() != "answered" {
			t.Errorf("%s: it gives %v and %v; want the one that is OK where there is no first", name, &reply, err)
		}
	}
}

func TestRequestsAreSentTwiceAndTheirAnswersLost(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	post := func(transport http.RoundTripper, body io.Reader) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	base := server.Client().Transport
	twice := oncetest.SendTwiceTransport(base)
	if err := post(twice, strings.NewReader("debit")); err != nil || strings.Join(bodies, " ") != "debit debit" {
		t.Errorf("sent twice, the server got %q; %v", bodies, err)
	}
	if err := post(twice, nil); err != nil || len(bodies) != 4 {
		t.Errorf("without a body the server got %q; %v", bodies[2:], err)
	}
	if err := post(twice, io.MultiReader(strings.NewReader("x"))); err == nil || len(bodies) != 4 {
		t.Errorf("a body that cannot be sent twice gives %v, and %d requests", err, len(bodies)-4)
	}
	losing := oncetest.LoseAnswersTransport(base, 2)
	for n, lost := range []bool{true, true, false} {
		if err := post(losing, nil); (err != nil) != lost || len(bodies) != 5+n {
			t.Errorf("request %d gives %v, and the server got %d; want it lost: %t", n+1, err, len(bodies)-4, lost)
		}
	}
}

func TestAServiceThatIsDownRunsNothingUntilItIsUp(t *testing.T) {
	keeper := oncetest.Start(t)
	c := keeper.Client(client.WithRetryBudget(0, 0))
	run := func() error {
		_, err := client.Do(t.Context(), c, key, func(context.Context, *client.Attempt) (string, error) { return "", nil })
		return err
	}
	keeper.Down()
	if err := run(); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("while it is down Do gives %v", err)
	}
	keeper.Up()
	if err := run(); err != nil {
		t.Errorf("up again Do gives %v", err)
	}
}

func TestASettlementThatIsLostLeavesAnAttemptThatIsTakenOver(t *testing.T) {
	keeper := oncetest.Start(t)
	keeper.LoseSettlements(1)
	takeovers := 0
	run := func(opts ...client.DoOption) error {
		_, err := client.Do(t.Context(), keeper.Client(), key, func(_ context.Context, a *client.Attempt) (string, error) {
			if a.Takeover() {
				takeovers++
			}
			return "", nil
		}, opts...)
		return err
	}
	if err := run(); err != nil {
		t.Errorf("the attempt itself gives %v", err)
	}
	if err := run(client.WithWait(0)); !errors.Is(err, oncekeeper.ErrInProgress) {
		t.Errorf("while its lease runs Do gives %v", err)
	}
	keeper.EndLeases()
	if err := run(); err != nil || takeovers != 1 {
		t.Errorf("after it Do gives %v, and %d attempts took over", err, takeovers)
	}
	// A batch is settled, and lost, like a single one.
	keeper.LoseSettlements(1)
	begun, err := keeper.Client().BatchBegin(t.Context(), []client.BeginRequest{{Key: oncekeeper.Key{Tenant: "acme", Operation: "o", ID: "batch"}}})
	if err != nil || begun[0].Answer.Grant == nil {
		t.Fatalf("BatchBegin: %+v, %v", begun, err)
	}
	settled, err := keeper.Client().BatchSettle(t.Context(), []client.Settlement{{
		Key: oncekeeper.Key{Tenant: "acme", Operation: "o", ID: "batch"}, Token: begun[0].Answer.Grant.Token, Ended: client.Ended{As: oncekeeper.SettledComplete},
	}})
	if err == nil && settled[0].Err == nil {
		t.Error("a batch's settlement is not lost")
	}
}
