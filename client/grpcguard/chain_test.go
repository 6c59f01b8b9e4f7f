package grpcguard_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

// A message that is delivered twice asks twice, each time by a call of its own.
func TestAKeyThatAttachMadeGivesWayToTheOneThatOutgoingKnows(t *testing.T) {
	request := &testservicev1.ChargeRequest{Cents: 5, Card: &testservicev1.Card{Number: "4242"}}
	for name, c := range map[string]struct {
		key     string // what OutgoingConfig.Key gives
		options []grpc.CallOption
		methods map[string]grpcguard.Method
		sent    string // the key that the downstream is told; "": any
		runs    int
	}{
		"known":                        {key: "order-17", sent: "order-17", runs: 1},
		"known, and named":             {key: "order-17", options: []grpc.CallOption{attach.Key("mine")}, sent: "mine", runs: 1},
		"not known":                    {key: "", runs: 2},
		"known, in another field only": {key: "order-17", methods: map[string]grpcguard.Method{chargeOp: {Options: &optionsv1.IdempotencyOptions{}}}, runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			s.charge = func(ctx context.Context, r *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
				md, _ := metadata.FromIncomingContext(ctx)
				if c.sent != "" && (!slices.Equal(md["idempotency-key"], []string{c.sent}) || r.GetRequestId() != c.sent) {
					t.Errorf("the downstream is told the keys %q and %q, want %q", md["idempotency-key"], r.GetRequestId(), c.sent)
				}
				return &testservicev1.ChargeResponse{Name: "charges/1"}, nil
			}
			byFunction := func(_ context.Context, _ string, asked proto.Message) (string, error) {
				if !proto.Equal(asked, request) {
					t.Errorf("Key is asked about %v, want the caller's own %v", asked, request)
				}
				return c.key, nil
			}
			cfg := grpcguard.OutgoingConfig{Config: grpcguard.Config{Methods: c.methods}, Key: byFunction}
			charges, _ := downstream(t, k, s, cfg, attach.UnaryClientInterceptor())
			for range 2 {
				_, err := charges.Charge(t.Context(), request, c.options...)
				mustBe(t, err, codes.OK)
			}
			if s.runs() != c.runs {
				t.Errorf("two deliveries charged %d times, want %d", s.runs(), c.runs)
			}
		})
	}
}

// overheard is a connection to Oncekeeper that keeps the metadata of every call.
type overheard struct {
	grpc.ClientConnInterface
	mu   sync.Mutex
	sent map[string]metadata.MD // by method
}

func (o *overheard) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	o.mu.Lock()
	o.sent[method] = metadata.Join(o.sent[method], md)
	o.mu.Unlock()
	return o.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
}

func TestWhatACallSendsDownstreamIsNotSentToOncekeeper(t *testing.T) {
	md := metadata.Pairs("authorization", "for the bank", "idempotency-key", "k")
	conn := &overheard{ClientConnInterface: granting(), sent: map[string]metadata.MD{}}
	keeper, cfg := client.New(conn), grpcguard.Config{Tenant: func(ctx context.Context) (string, error) {
		if sent, _ := metadata.FromOutgoingContext(ctx); len(sent["authorization"]) != 1 {
			t.Errorf("Tenant is asked with the metadata %v, want the caller's own", sent)
		}
		return "acme", nil
	}}
	outgoing, err := grpcguard.NewOutgoing(keeper, grpcguard.OutgoingConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := grpcguard.New(keeper, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	sends := func(ctx context.Context) {
		ran++
		if sent, _ := metadata.FromOutgoingContext(ctx); !maps.EqualFunc(sent, md, slices.Equal) {
			t.Errorf("what is run would send %v, want %v", sent, md)
		}
	}
	ctx := metadata.NewOutgoingContext(incoming(t, "k"), md)
	if err := outgoing.Unary()(ctx, "/"+captureOp, &testservicev1.CaptureRequest{}, &testservicev1.CaptureResponse{}, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			sends(ctx)
			return nil
		}); err != nil {
		t.Error(err)
	}
	if _, err := guard.Unary()(ctx, &testservicev1.CaptureRequest{}, info(captureOp), func(ctx context.Context, _ any) (any, error) {
		sends(ctx)
		return &testservicev1.CaptureResponse{}, nil
	}); err != nil {
		t.Error(err)
	}
	if ran != 2 || len(conn.sent) < 2 {
		t.Fatalf("%d of 2 calls ran, and Oncekeeper was called by %v", ran, conn.sent)
	}
	for method, sent := range conn.sent {
		if sent["authorization"] != nil || sent["idempotency-key"] != nil {
			t.Errorf("%s was sent %v", method, sent)
		}
	}
}
