package grpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

// downstream serves s with no guard, and gives a client that guards its calls.
func downstream(t *testing.T, k *keeper, s *service, cfg grpcguard.OutgoingConfig, before ...grpc.UnaryClientInterceptor) (testservicev1.ChargeServiceClient, *grpcguard.Outgoing) {
	t.Helper()
	cfg.Tenant, cfg.Wait = acme, -1
	outgoing, err := grpcguard.NewOutgoing(k.Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	testservicev1.RegisterChargeServiceServer(srv, s)
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	conn := dial(t, listener, grpc.WithChainUnaryInterceptor(append(before, outgoing.Unary())...))
	return testservicev1.NewChargeServiceClient(conn), outgoing
}

func TestAnOutgoingCallIsMadeOnceAndItsReplyReplayed(t *testing.T) {
	k, s := startKeeper(t), &service{}
	s.charge = func(ctx context.Context, r *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
		return &testservicev1.ChargeResponse{Name: "for " + r.GetRequestId(), Labels: map[string]string{"a": "1", "b": "2"}}, errors.Join(
			grpc.SetHeader(ctx, metadata.Pairs("location", "charges/1", "session", "secret")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost", "3")))
	}
	client, outgoing := downstream(t, k, s, grpcguard.OutgoingConfig{Config: grpcguard.Config{ReplayHeader: []string{"location"}, ReplayTrailer: []string{"cost"}}})
	request := &testservicev1.ChargeRequest{Cents: 5}
	var first *testservicev1.ChargeResponse
	for n := range 3 {
		var told reply
		response, err := client.Charge(t.Context(), request, append(told.options(), attach.Key("k"))...)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = response
		}
		if !proto.Equal(response, first) || response.GetName() != "for k" {
			t.Errorf("reply %d is %v, want %v for the key k", n, response, first)
		}
		if got := fmt.Sprint(told.header["location"], told.trailer["cost"], told.replayed()); got != fmt.Sprint("[charges/1] [3] ", n > 0) {
			t.Errorf("reply %d has %s", n, got)
		}
		if (told.header["session"] != nil) != (n == 0) {
			t.Errorf("reply %d has the header session %q, which is not to be replayed", n, told.header["session"])
		}
	}
	if s.runs() != 1 || request.GetRequestId() != "" {
		t.Errorf("the downstream was called %d times, and the caller's own request says %q", s.runs(), request.GetRequestId())
	}
	if got := outgoing.Stats(); got != (grpcguard.Stats{Ran: 1, Replayed: 2}) {
		t.Errorf("counted %+v, want one that ran and two replayed", got)
	}
}

// Case 18, the other end.
func TestOfADownstreamOnlyOKAndNamedCodesAreKnown(t *testing.T) {
	k := startKeeper(t)
	named := map[codes.Code]oncekeeper.Settlement{codes.NotFound: final, codes.ResourceExhausted: released}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			s := &service{}
			s.capture = func(context.Context, *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
				if s.runs() == 1 {
					return nil, status.Error(code, "the reason")
				}
				return &testservicev1.CaptureResponse{}, nil
			}
			client, _ := downstream(t, k, s, grpcguard.OutgoingConfig{Config: grpcguard.Config{
				Methods: map[string]grpcguard.Method{captureOp: {Codes: named}},
			}})
			call := func() error {
				_, err := client.Capture(t.Context(), &testservicev1.CaptureRequest{}, attach.Key(code.String()))
				return err
			}
			mustBe(t, call(), code)
			state := oncekeeper.StateAbandoned
			switch named[code] {
			case final:
				state = oncekeeper.StateFailed
			case released:
				state = oncekeeper.StateReleased
			}
			if got := k.record(t, captureOp, code.String()).State; got != state {
				t.Errorf("the key is %v, want %v", got, state)
			}
			if named[code] == final {
				if err := call(); status.Code(err) != code || status.Convert(err).Message() != "the reason" || s.runs() != 1 {
					t.Errorf("the next call got %v after %d runs, want the kept failure after one", err, s.runs())
				}
				return
			}
			if err := call(); err != nil || s.runs() != 2 {
				t.Errorf("the next call got %v after %d runs, want another", err, s.runs())
			}
		})
	}
}

func TestAnOutgoingKeyComesFromWhereItIsNamed(t *testing.T) {
	byFunction := func(_ context.Context, operation string, request proto.Message) (string, error) {
		switch charge := request.(*testservicev1.CaptureRequest).GetCharge(); charge {
		case "bad":
			return "", status.Error(codes.FailedPrecondition, "no order")
		case "none":
			return "", nil
		default:
			return operation[strings.LastIndexByte(operation, '/')+1:] + " of " + charge, nil
		}
	}
	attached := attach.UnaryClientInterceptor()
	for name, c := range map[string]struct {
		before []grpc.UnaryClientInterceptor
		call   func(context.Context, testservicev1.ChargeServiceClient) error
		key    string // of the record; "": none
		code   codes.Code
		runs   int
	}{
		"an option": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "1"}, attach.Key("k"))
			return err
		}, key: "k", runs: 1},
		"a function": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "1"})
			return err
		}, key: "Capture of 1", runs: 1},
		"metadata": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(metadata.AppendToOutgoingContext(ctx, "idempotency-key", "m"), &testservicev1.CaptureRequest{Charge: "1"})
			return err
		}, key: "m", runs: 1},
		"what attach wrote": {before: []grpc.UnaryClientInterceptor{attached}, call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "1"}, attach.Key("a"))
			return err
		}, key: "a", runs: 1},
		"none": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "none"})
			return err
		}, runs: 2},
		"a function that fails": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "bad"})
			return err
		}, code: codes.FailedPrecondition},
		"an empty option": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Capture(ctx, &testservicev1.CaptureRequest{}, attach.Key(""))
			return err
		}, code: codes.InvalidArgument},
		"two that differ": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Charge(ctx, &testservicev1.ChargeRequest{RequestId: "other"}, attach.Key("k"))
			return err
		}, code: codes.InvalidArgument},
		"an option for a method that is not guarded": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Look(ctx, &testservicev1.LookRequest{}, attach.Key("k"))
			return err
		}, code: codes.Internal},
		"a method that is not guarded": {call: func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Look(ctx, &testservicev1.LookRequest{})
			return err
		}, runs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			client, _ := downstream(t, k, s, grpcguard.OutgoingConfig{Key: byFunction}, c.before...)
			for range 2 {
				mustBe(t, c.call(t.Context(), client), c.code)
			}
			if s.runs() != c.runs {
				t.Errorf("two calls reached the downstream %d times, want %d", s.runs(), c.runs)
			}
			if c.key != "" {
				if got := k.record(t, captureOp, c.key).State; got != oncekeeper.StateCompleted {
					t.Errorf("the key %q is %v, want COMPLETED", c.key, got)
				}
			}
		})
	}
}

func TestAnOutgoingCallNeedsAKeyWhereItIsRequired(t *testing.T) {
	k, s := startKeeper(t), &service{}
	client, outgoing := downstream(t, k, s, grpcguard.OutgoingConfig{})
	_, err := client.Refund(t.Context(), &testservicev1.RefundRequest{})
	refusal(t, err, oncekeeper.ErrInvalidRequest, refundOp, codes.InvalidArgument)
	if s.runs() != 0 || outgoing.Stats() != (grpcguard.Stats{Refused: 1}) {
		t.Errorf("the downstream was called %d times, and counted is %+v", s.runs(), outgoing.Stats())
	}
}

func TestACallerThatEndsItsOutgoingCallLeavesItUnknown(t *testing.T) {
	k, s := startKeeper(t), &service{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.refund = func(run context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		cancel()
		<-run.Done()
		return nil, run.Err()
	}
	client, _ := downstream(t, k, s, grpcguard.OutgoingConfig{})
	_, err := client.Refund(ctx, &testservicev1.RefundRequest{}, attach.Key("k"))
	mustBe(t, err, codes.Canceled)
	_, err = client.Refund(t.Context(), &testservicev1.RefundRequest{}, attach.Key("k"))
	refusal(t, err, oncekeeper.ErrUnresolved, refundOp, codes.FailedPrecondition)
	if s.runs() != 1 {
		t.Errorf("the downstream was called %d times", s.runs())
	}
}

func TestAnAttachedOutgoingCallWaitsForAnother(t *testing.T) {
	k := startKeeper(t)
	s, running, letGo := holding(t)
	client, outgoing := downstream(t, k, s, grpcguard.OutgoingConfig{}, attach.UnaryClientInterceptor(attach.WithClock(k.clock)))
	answers := make(chan error, 2)
	call := func() {
		response, err := client.Refund(t.Context(), &testservicev1.RefundRequest{}, attach.Key("k"))
		if err == nil && response.GetName() != "refunds/1" {
			err = errors.New("the answer is " + response.GetName())
		}
		answers <- err
	}
	go call()
	<-running
	go call()
	if err := k.clock.AwaitTimers(keyed(t), 1); err != nil {
		t.Fatal(err)
	}
	letGo()
	mustBe(t, <-answers, codes.OK)
	k.clock.Advance(3 * attach.DefaultMaxDelay)
	mustBe(t, <-answers, codes.OK)
	if got := outgoing.Stats(); got.Ran != 1 || got.Replayed != 1 || got.InProgress != 1 {
		t.Errorf("counted %+v, want one that ran, one told to come back, and one replayed", got)
	}
}
