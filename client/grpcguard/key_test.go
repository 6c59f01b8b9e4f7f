package grpcguard_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

// Case 9, and 10 where it meets the guard.
func TestAKeyThatIsNoneIsRefusedBeforeTheHandler(t *testing.T) {
	k, s := startKeeper(t), &service{}
	g := serve(t, k, s, grpcguard.Config{Methods: map[string]grpcguard.Method{
		captureOp: {Options: &optionsv1.IdempotencyOptions{KeyField: "request_id"}},
	}})
	capturing := func(id *string) func(context.Context, *reply) {
		return func(ctx context.Context, told *reply) {
			_, told.err = g.Capture(ctx, &testservicev1.CaptureRequest{RequestId: id}, told.options()...)
		}
	}
	refunding := func(ctx context.Context, told *reply) {
		_, told.err = g.Refund(ctx, &testservicev1.RefundRequest{}, told.options()...)
	}
	for name, c := range map[string]struct {
		call      func(context.Context, *reply)
		keys      []string
		operation string
		says      string
	}{
		"none where it is required":    {refunding, nil, refundOp, "idempotency-key: is required"},
		"an empty one":                 {refunding, []string{""}, refundOp, "idempotency-key: is empty"},
		"white space":                  {refunding, []string{"  "}, refundOp, "idempotency-key: has white space at an end"},
		"white space behind":           {refunding, []string{"k "}, refundOp, "idempotency-key: has white space at an end"},
		"sent twice":                   {refunding, []string{"k", "k"}, refundOp, "idempotency-key: is sent more than once"},
		"two keys":                     {refunding, []string{"k", "other"}, refundOp, "idempotency-key: is sent more than once"},
		"one byte too many":            {refunding, []string{strings.Repeat("k", oncekeeper.MaxIDBytes+1)}, refundOp, "idempotency-key: has 256 bytes; at most 255 are taken"},
		"far too many":                 {refunding, []string{strings.Repeat("k", 8192)}, refundOp, "idempotency-key: has 8192 bytes; at most 255 are taken"},
		"a field set to empty":         {capturing(proto.String("")), nil, captureOp, "request_id: is empty"},
		"a field of white space":       {capturing(proto.String("\u2003")), nil, captureOp, "request_id: has white space at an end"},
		"a field with a control":       {capturing(proto.String("a\x00b")), nil, captureOp, "request_id: has a control character"},
		"a field beside another key":   {capturing(proto.String("k")), []string{"other"}, captureOp, "request_id: is another key than idempotency-key"},
		"a field beside an empty key":  {capturing(proto.String("k")), []string{""}, captureOp, "idempotency-key: is empty"},
		"a field and metadata by case": {capturing(proto.String("k")), []string{"K"}, captureOp, "request_id: is another key than idempotency-key"},
	} {
		t.Run(name, func(t *testing.T) {
			var told reply
			c.call(keyed(t, c.keys...), &told)
			e := refusal(t, told.err, oncekeeper.ErrInvalidRequest, c.operation, codes.InvalidArgument)
			if !strings.HasSuffix(e.text, c.says) {
				t.Errorf("the refusal says %q, want %q", e.text, c.says)
			}
			if got := told.trailer.Get(wire.ReasonTrailer); len(got) != 1 || got[0] != "INVALID_REQUEST" {
				t.Errorf("the trailer oncekeeper-reason is %q", got)
			}
		})
	}
	if s.runs() != 0 {
		t.Errorf("the handler ran %d times", s.runs())
	}
	if got := g.guard.Stats(); got != (grpcguard.Stats{Refused: 14}) {
		t.Errorf("counted %+v, want 14 refused", got)
	}
}

func TestAKeyThatIsNotUTF8IsTheCallersFault(t *testing.T) {
	// gRPC's Go client sends no such value; another's may.
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Tenant: acme})
	if err != nil {
		t.Fatal(err)
	}
	ctx := incoming(t, "\xff\xfe")
	_, err = guard.Unary()(ctx, &testservicev1.RefundRequest{}, info(refundOp), func(context.Context, any) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	refusal(t, err, oncekeeper.ErrInvalidRequest, refundOp, codes.InvalidArgument)
}

func TestKeysThatLookAlikeAreSeparateKeys(t *testing.T) {
	s := &service{}
	g := serve(t, startKeeper(t), s, grpcguard.Config{})
	keys := []string{"k", "K", `"k"`, "caf\u00e9", "cafe\u0301", strings.Repeat("k", 254) + "1", strings.Repeat("k", 254) + "2", "a/b", "a:b", "a%2Fb"}
	for _, key := range keys {
		_, err := g.Charge(t.Context(), &testservicev1.ChargeRequest{RequestId: key})
		mustBe(t, err, codes.OK)
	}
	if s.runs() != len(keys) {
		t.Errorf("the handler ran %d times for %d keys", s.runs(), len(keys))
	}
}

func TestACallWithoutAKeyRunsUnguarded(t *testing.T) {
	k, s := startKeeper(t), &service{}
	s.capture = func(ctx context.Context, _ *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
		if _, ok := grpcguard.AttemptFrom(ctx); ok {
			t.Error("an unguarded handler has an attempt")
		}
		return &testservicev1.CaptureResponse{}, grpcguard.SetResource(ctx, "captures/1")
	}
	g := serve(t, k, s, grpcguard.Config{})
	for range 2 {
		_, err := g.Capture(t.Context(), &testservicev1.CaptureRequest{})
		mustBe(t, err, codes.OK)
		_, err = g.Charge(t.Context(), &testservicev1.ChargeRequest{})
		mustBe(t, err, codes.OK)
	}
	if s.runs() != 4 || k.seen("Begin") != 0 {
		t.Errorf("4 calls ran the handler %d times and asked Oncekeeper %d times, want 4 and none", s.runs(), k.seen("Begin"))
	}
	if got := g.guard.Stats(); got != (grpcguard.Stats{Keyless: 4}) {
		t.Errorf("counted %+v, want 4 without a key", got)
	}
}

func TestAMethodThatIsNotAnnotatedPasses(t *testing.T) {
	k, s := startKeeper(t), &service{}
	g := serve(t, k, s, grpcguard.Config{Methods: map[string]grpcguard.Method{"/" + captureOp: {Unguarded: true}}})
	for range 2 {
		_, err := g.Look(keyed(t, "k"), &testservicev1.LookRequest{})
		mustBe(t, err, codes.OK)
		_, err = g.Capture(keyed(t, "k"), &testservicev1.CaptureRequest{})
		mustBe(t, err, codes.OK)
	}
	if got := g.guard.Stats(); s.runs() != 4 || got != (grpcguard.Stats{NotGuarded: 4}) {
		t.Errorf("the handlers ran %d times, and counted is %+v; want 4 not guarded", s.runs(), got)
	}
	named := serve(t, k, s, grpcguard.Config{Methods: map[string]grpcguard.Method{lookOp: {}}})
	for range 2 {
		_, err := named.Look(keyed(t, "k"), &testservicev1.LookRequest{})
		mustBe(t, err, codes.OK)
	}
	if s.runs() != 5 {
		t.Errorf("a method that the configuration names ran %d times, want once", s.runs()-4)
	}
}

func TestAKeyMayComeByMetadataOneTimeAndInTheFieldTheNext(t *testing.T) {
	s := &service{}
	g := serve(t, startKeeper(t), s, grpcguard.Config{})
	for _, c := range []struct {
		ctx     context.Context
		request *testservicev1.ChargeRequest
	}{
		{t.Context(), &testservicev1.ChargeRequest{RequestId: "k", Cents: 5}},
		{keyed(t, "k"), &testservicev1.ChargeRequest{Cents: 5}},
		{keyed(t, "k"), &testservicev1.ChargeRequest{RequestId: "k", Cents: 5}},
	} {
		_, err := g.Charge(c.ctx, c.request)
		mustBe(t, err, codes.OK)
	}
	if s.runs() != 1 {
		t.Errorf("the handler ran %d times for one key", s.runs())
	}
}

func TestTwoTenantsEqualKeysAreTwoKeys(t *testing.T) {
	s := &service{}
	type tenantKey struct{}
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Logger: slog.New(slog.DiscardHandler), Tenant: func(ctx context.Context) (string, error) {
		switch tenant := ctx.Value(tenantKey{}).(type) {
		case string:
			return tenant, nil
		case error:
			return "", tenant
		default:
			return "", errors.New("the database of tenants said: secret")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	call := func(tenant any) error {
		ctx := metadata.NewIncomingContext(context.WithValue(t.Context(), tenantKey{}, tenant), metadata.Pairs("idempotency-key", "k"))
		_, err := guard.Unary()(ctx, &testservicev1.RefundRequest{}, info(refundOp), func(ctx context.Context, r any) (any, error) {
			return s.Refund(ctx, r.(*testservicev1.RefundRequest))
		})
		return err
	}
	for _, tenant := range []string{"acme", "acm", "acme", "globex"} {
		mustBe(t, call(tenant), codes.OK)
	}
	if s.runs() != 3 {
		t.Errorf("the handler ran %d times for three tenants", s.runs())
	}
	mustBe(t, call(status.Error(codes.Unauthenticated, "who are you?")), codes.Unauthenticated)
	for name, tenant := range map[string]any{"an error": nil, "an empty tenant": "", "one too long": strings.Repeat("t", oncekeeper.MaxTenantBytes+1)} {
		err := call(tenant)
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s of the tenant function gives %v, want an opaque INTERNAL: it is not the caller's fault", name, err)
		}
	}
	if s.runs() != 3 {
		t.Errorf("the handler ran for a call of no tenant")
	}
}

// Cases 5 and 6.
func TestAnotherRequestUnderTheSameKeyIsRefusedAtOnce(t *testing.T) {
	s := &service{}
	g := serve(t, startKeeper(t), s, grpcguard.Config{})
	other := &testservicev1.ChargeRequest{RequestId: "k", Cents: 6, Card: &testservicev1.Card{Number: "4242", Nonce: "c"}}
	mismatch := func(when string) {
		t.Helper()
		var told reply
		_, err := g.Charge(t.Context(), other, told.options()...)
		refusal(t, err, oncekeeper.ErrFingerprintMismatch, chargeOp, codes.FailedPrecondition)
		if told.replayed() || told.trailer.Get("grpc-retry-pushback-ms") != nil {
			t.Errorf("%s: the mismatch asks for a retry, or is a replay: %v %v", when, told.header, told.trailer)
		}
	}
	s.charge = func(context.Context, *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
		mismatch("while the first is running")
		return &testservicev1.ChargeResponse{}, nil
	}
	_, err := g.Charge(t.Context(), &testservicev1.ChargeRequest{RequestId: "k", Cents: 5, Card: &testservicev1.Card{Number: "4242", Nonce: "a"}})
	mustBe(t, err, codes.OK)
	mismatch("once it is settled")
	_, err = g.Charge(t.Context(), &testservicev1.ChargeRequest{RequestId: "k", Cents: 5, Card: &testservicev1.Card{Number: "4242", Nonce: "b"}})
	mustBe(t, err, codes.OK) // the nonce is a field to ignore
	if s.runs() != 1 {
		t.Errorf("the handler ran %d times", s.runs())
	}
}
