package attach_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/oncetest"
)

var transfer = oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: "order-17"}

var errCrashed = errors.New("the process died here, for all that anyone knows")

// attempting runs one attempt of key, and gives what it gave.
func attempting(t *testing.T, keeper *client.Client, key oncekeeper.Key, run func(ctx context.Context) error) error {
	t.Helper()
	return attemptingInside(t, t.Context(), keeper, key, run)
}

func attemptingInside(t *testing.T, ctx context.Context, keeper *client.Client, key oncekeeper.Key, run func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ran := false
	_, err := client.Do(ctx, keeper, key, func(ctx context.Context, _ *client.Attempt) (string, error) {
		ran = true
		return "", run(ctx)
	})
	if !ran {
		t.Fatalf("the attempt was not run: %v", err)
	}
	return err
}

func keysOf(calls []call) []string {
	var keys []string
	for _, c := range calls {
		keys = append(keys, strings.Join(c.keys, " and "))
	}
	return keys
}

func TestEveryAttemptMakesItsCallsWithTheSameKeysAndNoOtherParentDoes(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	keysOfAttempt := func(parent oncekeeper.Key) []string {
		s := &service{}
		c := start(t, s)
		var derived []string
		err := attempting(t, keeper, parent, func(ctx context.Context) error {
			for _, made := range []func() error{
				func() error {
					_, err := c.Charge(attach.Step(ctx, "debit"), &testservicev1.ChargeRequest{})
					return err
				},
				func() error { _, err := c.Charge(attach.Step(ctx, "fee"), &testservicev1.ChargeRequest{}); return err },
				func() error {
					_, err := c.Refund(attach.Step(ctx, "debit"), &testservicev1.RefundRequest{})
					return err
				},
				func() error { _, err := c.Look(attach.Step(ctx, "look"), &testservicev1.LookRequest{}); return err },
				func() error { _, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "a"}); return err },
				func() error { _, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "b"}); return err },
				func() error { _, err := c.Capture(ctx, &testservicev1.CaptureRequest{Charge: "a"}); return err },
			} {
				if err := made(); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range []string{"debit", "mail"} {
				key, err := attach.DeriveKey(ctx, step)
				if err != nil {
					t.Fatal(err)
				}
				derived = append(derived, key)
			}
			return errCrashed
		})
		if !errors.Is(err, errCrashed) {
			t.Fatalf("the attempt gives %v", err)
		}
		if first := s.seen()[0]; first.field != first.keys[0] {
			t.Errorf("the key field holds %q, want the key %q", first.field, first.keys[0])
		}
		return append(keysOf(s.seen()), derived...)
	}
	first, takeover := keysOfAttempt(transfer), keysOfAttempt(transfer)
	if !slices.Equal(first, takeover) {
		t.Errorf("the first attempt's keys are %q\nand the next one's %q", first, takeover)
	}
	all := slices.Clone(first)
	for _, other := range []oncekeeper.Key{
		{Tenant: "acm", Operation: "transfers.make", ID: "order-17"},
		{Tenant: "acme", Operation: "transfers.mak", ID: "order-17"},
		{Tenant: "acme", Operation: "transfers.make", ID: "order-1"},
	} {
		all = append(all, keysOfAttempt(other)...)
	}
	slices.Sort(all)
	if got, want := len(slices.Compact(all)), 4*len(first); got != want {
		t.Errorf("four parents' calls have %d keys, want %d:\n%s", got, want, strings.Join(all, "\n"))
	}
}

func TestAnEqualCallHasTheSameKeyUntilTheOutcomeOfTheFirstIsKnown(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	for name, c := range map[string]struct {
		first error
		same  bool
	}{
		"OK":                                    {nil, false},
		"INVALID_ARGUMENT":                      {status.Error(codes.InvalidArgument, ""), false},
		"OUT_OF_RANGE":                          {status.Error(codes.OutOfRange, ""), false},
		"a response that was not kept":          {refusal(t, oncekeeper.ErrResponseNotKept, captureOp, 0), false},
		"another operation's that was not kept": {refusal(t, oncekeeper.ErrResponseNotKept, refund, 0), true},
		"UNAVAILABLE":                           {status.Error(codes.Unavailable, ""), true},
		"INTERNAL":                              {status.Error(codes.Internal, ""), true},
		"DEADLINE_EXCEEDED":                     {status.Error(codes.DeadlineExceeded, ""), true},
		"FAILED_PRECONDITION, maybe of a takeover": {status.Error(codes.FailedPrecondition, ""), true},
		"NOT_FOUND, maybe of a takeover":           {status.Error(codes.NotFound, ""), true},
		"unresolved":                               {refusal(t, oncekeeper.ErrUnresolved, captureOp, 0), true},
		"an invalid key":                           {refusal(t, oncekeeper.ErrInvalidRequest, captureOp, 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{answers: []answer{{err: c.first}, {}}}
			stub := start(t, s)
			err := attempting(t, keeper, oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: name}, func(ctx context.Context) error {
				for range 3 {
					_, _ = stub.Capture(ctx, &testservicev1.CaptureRequest{Charge: "a"})
				}
				return nil
			})
			keys := keysOf(s.seen())
			if err != nil || len(keys) != 3 || (keys[0] == keys[1]) != c.same || keys[1] == keys[2] || keys[0] == keys[2] {
				t.Errorf("the keys are %q, %v; want the first two the same: %t, and the third, after OK, another", keys, err, c.same)
			}
		})
	}
}

const captureOp = "testservice.v1.ChargeService/Capture"

func TestTwoEqualCallsAtOnceAreRefused(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	charging := func(step string, request *testservicev1.ChargeRequest, options ...grpc.CallOption) func(context.Context, testservicev1.ChargeServiceClient) error {
		return func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			if step != "" {
				ctx = attach.Step(ctx, step)
			}
			_, err := c.Charge(ctx, request, options...)
			return err
		}
	}
	five := func(nonce string) *testservicev1.ChargeRequest {
		return &testservicev1.ChargeRequest{Cents: 5, Card: &testservicev1.Card{Nonce: nonce}}
	}
	for name, c := range map[string]struct {
		step    string // of the first
		second  func(ctx context.Context, c testservicev1.ChargeServiceClient) error
		refused bool
	}{
		"the same request":                    {"", charging("", five("x")), true},
		"one that differs where it may":       {"", charging("", five("y")), true},
		"another request":                     {"", charging("", &testservicev1.ChargeRequest{Cents: 6}), false},
		"the same one with a key of its own":  {"", charging("", five("x"), attach.Key("k")), false},
		"the same one as a step":              {"", charging("first", five("x")), false},
		"the same step":                       {"first", charging("first", five("x")), true},
		"the same step with another request":  {"first", charging("first", &testservicev1.ChargeRequest{Cents: 6}), true},
		"another step":                        {"first", charging("second", five("x")), false},
		"the same step with a key of its own": {"first", charging("first", five("x"), attach.Key("k")), false},
		"the same step of another method": {"first", func(ctx context.Context, c testservicev1.ChargeServiceClient) error {
			_, err := c.Refund(attach.Step(ctx, "first"), &testservicev1.RefundRequest{})
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{}
			err := attempting(t, keeper, oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: name}, func(ctx context.Context) error {
				var second error
				stub := interruptible(t, s, func(stub testservicev1.ChargeServiceClient) { second = c.second(ctx, stub) })
				if err := charging(c.step, five("x"))(ctx, stub); err != nil {
					return err
				}
				if c.refused && (!errors.Is(second, attach.ErrAtOnce) || status.Code(second) != codes.Internal) || !c.refused && second != nil {
					return fmt.Errorf("while the first is under way, the second is told %w; want ErrAtOnce: %t", second, c.refused)
				}
				return c.second(ctx, stub) // after the first it is made
			})
			if err != nil {
				t.Error(err)
			}
			if got, want := len(s.seen()), map[bool]int{true: 2, false: 3}[c.refused]; got != want {
				t.Errorf("%d calls were sent, want %d", got, want)
			}
		})
	}
}

// interruptible gives a stub that calls within, with itself, while its first call is
// under way.
func interruptible(t *testing.T, s *service, within func(testservicev1.ChargeServiceClient)) testservicev1.ChargeServiceClient {
	t.Helper()
	var stub testservicev1.ChargeServiceClient
	first := true
	stub = dial(t, s, grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor(),
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			if first {
				first = false
				within(stub)
			}
			return invoke(ctx, method, request, reply, conn, options...)
		}))
	return stub
}

func TestACallThatPanicsIsNoLongerUnderWayAndItsOutcomeNotKnown(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	s := &service{}
	panics := true
	stub := dial(t, s, grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor(),
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			err := invoke(ctx, method, request, reply, conn, options...)
			if panics {
				panics = false
				panic("an interceptor's fault")
			}
			return err
		}))
	err := attempting(t, keeper, transfer, func(ctx context.Context) error {
		func() {
			defer func() { _ = recover() }()
			_, _ = stub.Capture(ctx, &testservicev1.CaptureRequest{})
		}()
		_, err := stub.Capture(ctx, &testservicev1.CaptureRequest{})
		return err
	})
	if keys := keysOf(s.seen()); err != nil || len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("the keys are %q, %v; want the same twice", keys, err)
	}
}

// Whoever stands further in and knows the call by something better than its request
// may have its own key; of a step that was named nobody knows better.
func TestAKeyThatNobodyNamedIsTheLastResort(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	var replaceable []bool
	stub := dial(t, &service{}, grpc.WithChainUnaryInterceptor(attach.UnaryClientInterceptor(),
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			_, made := callkey.MadeOf(ctx)
			replaceable = append(replaceable, made)
			return invoke(ctx, method, request, reply, conn, options...)
		}))
	err := attempting(t, keeper, transfer, func(ctx context.Context) error {
		_, unnamed := stub.Capture(ctx, &testservicev1.CaptureRequest{})
		_, named := stub.Capture(attach.Step(ctx, "capture"), &testservicev1.CaptureRequest{})
		return errors.Join(unnamed, named)
	})
	if err != nil || !slices.Equal(replaceable, []bool{true, false}) {
		t.Errorf("unnamed and named, the keys count as made: %v, %v; want true and false", replaceable, err)
	}
}

func TestAGuardedServiceFurtherDownRunsOnceThoughItsCallerIsAttemptedTwice(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	guard, err := grpcguard.New(keeper, grpcguard.Config{Tenant: func(context.Context) (string, error) { return "transfers", nil }})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{}
	stub := dialServer(t, s, grpc.NewServer(grpc.UnaryInterceptor(guard.Unary())), grpc.WithUnaryInterceptor(attach.UnaryClientInterceptor()))
	for _, last := range []error{errCrashed, errCrashed, nil} {
		err := attempting(t, keeper, transfer, func(ctx context.Context) error {
			_, debit := stub.Charge(attach.Step(ctx, "debit"), &testservicev1.ChargeRequest{Cents: 5})
			_, fee := stub.Charge(ctx, &testservicev1.ChargeRequest{Cents: 1})
			_, credit := stub.Refund(attach.Step(ctx, "credit"), &testservicev1.RefundRequest{})
			return errors.Join(debit, fee, credit, last)
		})
		if !errors.Is(err, last) {
			t.Fatalf("the attempt gives %v, want %v", err, last)
		}
	}
	if calls := s.seen(); len(calls) != 3 {
		t.Errorf("three attempts had %d calls run, want 3: %q", len(calls), keysOf(calls))
	}
	// The same step for another request is told so by the guard.
	_ = attempting(t, keeper, oncekeeper.Key{Tenant: "acme", Operation: "transfers.make", ID: "order-18"}, func(ctx context.Context) error {
		_, first := stub.Charge(attach.Step(ctx, "debit"), &testservicev1.ChargeRequest{Cents: 5})
		_, second := stub.Charge(attach.Step(ctx, "debit"), &testservicev1.ChargeRequest{Cents: 6})
		if first != nil || !errors.Is(second, oncekeeper.ErrFingerprintMismatch) {
			t.Errorf("one step with two requests is told %v and %v; want ErrFingerprintMismatch for the second", first, second)
		}
		return nil
	})
}

func TestAGuardedHandlerThatIsRunAgainMakesItsCallsWithTheSameKeys(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	guard, err := grpcguard.New(keeper, grpcguard.Config{Tenant: func(context.Context) (string, error) { return "acme", nil }})
	if err != nil {
		t.Fatal(err)
	}
	below := &service{}
	down := start(t, below)
	handler := func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		if _, err := down.Charge(attach.Step(ctx, "debit"), &testservicev1.ChargeRequest{}); err != nil {
			return nil, err
		}
		if _, err := down.Capture(ctx, &testservicev1.CaptureRequest{}); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "nobody knows")
	}
	stub := dialServer(t, &service{}, grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary(), handler)), grpc.WithUnaryInterceptor(attach.UnaryClientInterceptor()))
	for _, key := range []string{"k", "k", "other"} {
		if _, err := stub.Charge(t.Context(), &testservicev1.ChargeRequest{}, attach.Key(key)); status.Code(err) != codes.Unavailable {
			t.Fatalf("the guarded call is answered %v", err)
		}
	}
	keys := keysOf(below.seen())
	if len(keys) != 6 || keys[0] != keys[2] || keys[1] != keys[3] || keys[0] == keys[1] || keys[4] == keys[0] || keys[5] == keys[1] {
		t.Errorf("two attempts of one key and one of another make calls with the keys %q; want the first two alike", keys)
	}
}

func TestTheInnermostAttemptIsTheParent(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	inner := oncekeeper.Key{Tenant: "acme", Operation: "fees.take", ID: "order-17"}
	alone, outside, inside := "", "", ""
	s := &service{}
	stub := start(t, s)
	called := func(ctx context.Context) string {
		if _, err := stub.Capture(ctx, &testservicev1.CaptureRequest{}); err != nil {
			t.Fatal(err)
		}
		calls := s.seen()
		return calls[len(calls)-1].keys[0]
	}
	_ = attempting(t, keeper, inner, func(ctx context.Context) error {
		alone = called(ctx)
		return errCrashed
	})
	_ = attempting(t, keeper, transfer, func(ctx context.Context) error {
		outside = called(ctx)
		// A step of the outer attempt says nothing of what is done inside the inner one.
		return attemptingInside(t, attach.Step(ctx, "fee"), keeper, inner, func(ctx context.Context) error {
			inside = called(ctx)
			return nil
		})
	})
	if inside != alone || inside == outside {
		t.Errorf("inside the inner attempt the key is %q, want %q, that of the inner attempt alone, and not %q", inside, alone, outside)
	}
}

func TestOutsideAnAttemptAStepDoesNothing(t *testing.T) {
	s := &service{}
	stub := start(t, s)
	ctx := attach.Step(t.Context(), "debit")
	if _, err := stub.Charge(ctx, &testservicev1.ChargeRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stub.Look(ctx, &testservicev1.LookRequest{}); err != nil {
		t.Fatal(err)
	}
	calls := s.seen()
	if !uuidv7.MatchString(calls[0].keys[0]) || calls[1].keys != nil {
		t.Errorf("the keys are %q, want a generated one and none", keysOf(calls))
	}
	if key, err := attach.DeriveKey(ctx, "debit"); !errors.Is(err, attach.ErrNoAttempt) || key != "" {
		t.Errorf("DeriveKey gives %q, %v; want ErrNoAttempt", key, err)
	}
}

func TestAStepWithoutANameIsRefused(t *testing.T) {
	keeper := oncetest.Start(t).Client()
	s := &service{}
	stub := start(t, s)
	_ = attempting(t, keeper, transfer, func(ctx context.Context) error {
		for _, name := range []string{"", "\xff"} {
			_, err := stub.Charge(attach.Step(ctx, name), &testservicev1.ChargeRequest{})
			if _, derived := attach.DeriveKey(ctx, name); !errors.Is(err, attach.ErrStep) || !errors.Is(derived, attach.ErrStep) || status.Code(err) != codes.Internal {
				t.Errorf("the step %q gives %v and %v; want ErrStep", name, err, derived)
			}
		}
		return nil
	})
	if calls := s.seen(); len(calls) != 0 {
		t.Errorf("%d calls were sent", len(calls))
	}
}
