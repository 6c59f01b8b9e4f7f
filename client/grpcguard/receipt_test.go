package grpcguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/internal/fakereceipts"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	optionsv1 "github.com/oncekeeper/oncekeeper/proto/oncekeeper/options/v1"
)

// bank is a guarded service whose Refund is a transaction with a receipt.
type bank struct {
	*guarded
	*service
	db *fakereceipts.Store
}

var errDatabase = errors.New("the database is down")

// key of the bank's refunds.
var refundKey = oncekeeper.Key{Tenant: "acme", Operation: refundOp, ID: "k"}

func newBank(t *testing.T, m grpcguard.Method) *bank {
	t.Helper()
	if m.Options == nil {
		m.Options = &optionsv1.IdempotencyOptions{} // its own has hold
	}
	k := startKeeper(t)
	k.connect(client.WithClock(k.clock), client.WithRetryBudget(0, 0), client.WithSettleTimeout(time.Second))
	b := &bank{service: &service{}, db: &fakereceipts.Store{}}
	b.refund = b.inTx
	b.guarded = serve(t, k, b.service, grpcguard.Config{
		Receipts: b.db, ReplayHeader: []string{"location"}, Methods: map[string]grpcguard.Method{refundOp: m},
	})
	return b
}

// inTx is the handler: its whole effect is in the transaction.
func (b *bank) inTx(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
	if err := grpc.SetHeader(ctx, metadata.Pairs("location", "refunds/7")); err != nil {
		return nil, err
	}
	return fakereceipts.InTx(ctx, b.db, func(context.Context) (*testservicev1.RefundResponse, error) {
		return &testservicev1.RefundResponse{Name: "refunds/7"}, nil
	})
}

// mustRefund calls, and fails the test where the answer is not the refund that
// happened once.
func (b *bank) mustRefund(t *testing.T, replayed bool) {
	t.Helper()
	response, told := b.refundOnce(t, "k")
	if told.err != nil || response.GetName() != "refunds/7" || told.replayed() != replayed {
		t.Errorf("the answer is %v, %v, marked as a replay: %v; want refunds/7, and %v", response, told.err, told.replayed(), replayed)
	}
	if got := told.header["location"]; len(got) != 1 || got[0] != "refunds/7" {
		t.Errorf("the header is %v", told.header)
	}
	if n := b.db.Effects(refundKey); n != 1 {
		t.Errorf("it happened %d times", n)
	}
}

// lose has the service not hear of settlements, and time pass with each.
func (k *keeper) lose(method string) {
	k.breakWith(func(called string) error {
		if called != method {
			return nil
		}
		k.clock.Advance(time.Second)
		return status.Error(codes.Unavailable, "cut")
	})
}

func down(context.Context, string) error { return errDatabase }

func TestWhatInTxCommittedIsTheAnswerWhateverTheHandlerGives(t *testing.T) {
	for name, after := range map[string]error{
		"an error": errors.New("late"), "a final one": status.Error(codes.FailedPrecondition, "late"), "nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, grpcguard.Method{})
			b.refund = func(ctx context.Context, r *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
				if _, err := b.inTx(ctx, r); err != nil {
					t.Error(err)
				}
				return &testservicev1.RefundResponse{Name: "another"}, after
			}
			b.mustRefund(t, false)
			b.mustRefund(t, true)
			if b.runs() != 1 {
				t.Errorf("ran %d times", b.runs())
			}
		})
	}
}

func TestATakeoverReplaysFromTheReceiptWithItsHeader(t *testing.T) {
	b := newBank(t, grpcguard.Method{})
	b.keeper.lose("Complete")
	b.mustRefund(t, false)
	b.keeper.breakWith(nil)
	b.keeper.clock.Advance(time.Minute)
	b.mustRefund(t, true)
	b.mustRefund(t, true)
	if b.runs() != 1 {
		t.Errorf("ran %d times", b.runs())
	}
	if st := b.guard.Stats(); st.Ran != 1 || st.Replayed != 2 {
		t.Errorf("counted %+v", st)
	}
}

// takenOver is a bank of whose refund an attempt was never heard of again.
func takenOver(t *testing.T, m grpcguard.Method) *bank {
	t.Helper()
	b := newBank(t, m)
	b.keeper.lose("Fail")
	b.refund = func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		return nil, status.Error(codes.Internal, "died")
	}
	if _, told := b.refundOnce(t, "k"); status.Code(told.err) != codes.Internal {
		t.Fatal(told.err)
	}
	b.keeper.breakWith(nil)
	b.keeper.clock.Advance(time.Minute)
	b.refund = b.inTx
	return b
}

func TestWithReceiptsATakeoverIsBelievedThatItWasRefused(t *testing.T) {
	for _, code := range []codes.Code{codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition} {
		b := takenOver(t, grpcguard.Method{})
		b.refund = func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
			return nil, status.Error(code, "refused")
		}
		for n := range 2 {
			if _, told := b.refundOnce(t, "k"); status.Code(told.err) != code || told.replayed() != (n == 1) {
				t.Errorf("call %d is answered %v, replayed %v; want %v", n, told.err, told.replayed(), code)
			}
		}
		without := takenOver(t, grpcguard.Method{NoReceipts: true})
		without.refund = b.refund
		_, _ = without.refundOnce(t, "k")
		if rec := without.keeper.record(t, refundOp, "k"); rec.State != oncekeeper.StateAbandoned {
			t.Errorf("without receipts, the record is %v, want it abandoned", rec.State)
		}
	}
}

func TestATransactionThatRolledBackIsJudgedByItsCodeFirst(t *testing.T) {
	for code, want := range map[codes.Code]oncekeeper.State{
		codes.FailedPrecondition: oncekeeper.StateFailed,
		codes.PermissionDenied:   oncekeeper.StateReleased,
		codes.Unavailable:        oncekeeper.StateReleased,
	} {
		b := newBank(t, grpcguard.Method{})
		b.refund = func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
			return fakereceipts.InTx(ctx, b.db, func(context.Context) (*testservicev1.RefundResponse, error) {
				return nil, status.Error(code, "insufficient funds")
			})
		}
		_, told := b.refundOnce(t, "k")
		mustBe(t, told.err, code)
		if rec := b.keeper.record(t, refundOp, "k"); rec.State != want {
			t.Errorf("%v: the record is %v, want %v", code, rec.State, want)
		}
		if row := b.db.Row(refundKey); row == nil || row.Floor == 0 {
			t.Errorf("%v: the receipt is %+v, want it closed", code, row)
		}
	}
}

func TestAHeldKeyIsUnresolvedUntilItsReceiptIsFound(t *testing.T) {
	b := takenOver(t, grpcguard.Method{Options: &optionsv1.IdempotencyOptions{Hold: true}})
	_, told := b.refundOnce(t, "k")
	refusal(t, told.err, oncekeeper.ErrUnresolved, refundOp, codes.FailedPrecondition)
	body, err := proto.Marshal(&testservicev1.RefundResponse{Name: "refunds/7"})
	if err != nil {
		t.Fatal(err)
	}
	b.db.Put(receipt.Receipt{Key: refundKey, Token: 1, Response: &oncekeeper.Response{
		Body: body, ContentType: client.TypeURLPrefix + "testservice.v1.RefundResponse",
		Metadata: []oncekeeper.MetadataEntry{{Kind: oncekeeper.MetadataHeader, Name: "location", Value: []byte("refunds/7")}},
	}})
	b.mustRefund(t, true)
	if rec := b.keeper.record(t, refundOp, "k"); rec.State != oncekeeper.StateCompleted {
		t.Errorf("the record is %v, want completed", rec.State)
	}
}

func TestAHeldKeyIsReconciled(t *testing.T) {
	hold := &optionsv1.IdempotencyOptions{Hold: true}
	b := takenOver(t, grpcguard.Method{Options: hold, Reconcile: grpcguard.ReceiptsTell})
	b.mustRefund(t, false)
	b.mustRefund(t, true)

	asked := 0
	b = takenOver(t, grpcguard.Method{Options: hold, Reconcile: func(_ context.Context, q client.Question, request proto.Message) (client.Finding, proto.Message, error) {
		if asked++; !q.Held || request.(*testservicev1.RefundRequest).GetCharge() != "charges/1" {
			t.Errorf("asked %+v about %v", q, request)
		}
		return client.Happened, &testservicev1.RefundResponse{Name: "refunds/of-the-provider"}, nil
	}})
	for range 2 {
		response, told := b.refundOnce(t, "k")
		if told.err != nil || !told.replayed() || response.GetName() != "refunds/of-the-provider" {
			t.Errorf("the answer is %v, %v", response, told.err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestWhereTheReceiptsCannotBeAskedTheHandlerIsNotRun(t *testing.T) {
	b := takenOver(t, grpcguard.Method{})
	b.db.OnStep(down)
	_, told := b.refundOnce(t, "k")
	if got := refusal(t, told.err, oncekeeper.ErrStoreUnavailable, refundOp, codes.Unavailable); got.delay <= 0 {
		t.Errorf("refused as %+v, want a delay", got)
	}
	if b.runs() != 1 {
		t.Errorf("ran %d times, want the first alone", b.runs())
	}
	b.db.OnStep(nil)
	b.mustRefund(t, false)
}

func TestAReceiptOfAnotherRequestIsAMismatch(t *testing.T) {
	b := newBank(t, grpcguard.Method{})
	b.db.Put(receipt.Receipt{Key: refundKey, FingerprintScheme: "pb1", Fingerprint: []byte("another"), Response: &oncekeeper.Response{}})
	for range 2 {
		_, told := b.refundOnce(t, "k")
		refusal(t, told.err, oncekeeper.ErrFingerprintMismatch, refundOp, codes.FailedPrecondition)
	}
}

func TestAnOutageIsTheMethodsOwnAffair(t *testing.T) {
	away := func(string) error { return status.Error(codes.Unavailable, "cut") }
	t.Run("closed", func(t *testing.T) {
		b := newBank(t, grpcguard.Method{})
		b.keeper.breakWith(away)
		_, told := b.refundOnce(t, "k")
		refusal(t, told.err, oncekeeper.ErrStoreUnavailable, refundOp, codes.Unavailable)
	})
	t.Run("receipts only", func(t *testing.T) {
		b := newBank(t, grpcguard.Method{Outage: client.OutageReceiptsOnly})
		b.keeper.breakWith(away)
		b.mustRefund(t, false)
		b.mustRefund(t, true)
		if st := b.guard.Stats(); b.runs() != 1 || st.OutageReceipts != 1 || st.OutageOpen != 0 {
			t.Errorf("ran %d times, and counted %+v", b.runs(), st)
		}
		b.keeper.breakWith(nil)
		b.mustRefund(t, false)
		b.mustRefund(t, true)
	})
	t.Run("receipts only, and the floor refuses", func(t *testing.T) {
		b := newBank(t, grpcguard.Method{Outage: client.OutageReceiptsOnly})
		b.keeper.breakWith(away)
		b.refund = func(ctx context.Context, r *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
			b.db.Put(receipt.Receipt{Key: refundKey, Floor: 9})
			return b.inTx(ctx, r)
		}
		_, told := b.refundOnce(t, "k")
		refusal(t, told.err, oncekeeper.ErrStoreUnavailable, refundOp, codes.Unavailable)
		if n := b.db.Effects(refundKey); n != 0 {
			t.Errorf("it happened %d times", n)
		}
	})
	t.Run("open", func(t *testing.T) {
		b := newBank(t, grpcguard.Method{Outage: client.OutageOpen})
		b.keeper.breakWith(away)
		b.refund = func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
			if _, ok := grpcguard.AttemptFrom(ctx); ok || receipt.PermitFrom(ctx) != nil {
				t.Error("it runs guarded")
			}
			return &testservicev1.RefundResponse{}, nil
		}
		for range 2 {
			if _, told := b.refundOnce(t, "k"); told.err != nil {
				t.Error(told.err)
			}
		}
		if st := b.guard.Stats(); b.runs() != 2 || st.OutageOpen != 2 {
			t.Errorf("ran %d times, and counted %+v", b.runs(), st)
		}
	})
}

// The service was lost, and its new clock is behind an earlier attempt's token.
func TestACallThatTheFloorRefusesIsToComeBack(t *testing.T) {
	b := newBank(t, grpcguard.Method{})
	b.db.Put(receipt.Receipt{Key: refundKey, Floor: 1 << 52})
	for range 2 { // the first one runs, and the next one looks before
		_, told := b.refundOnce(t, "k")
		refusal(t, told.err, oncekeeper.ErrStoreUnavailable, refundOp, codes.Unavailable)
	}
	if n := b.db.Effects(refundKey); n != 0 {
		t.Errorf("it happened %d times", n)
	}
}

func TestWhatReceiptsCannotDoIsRefusedAtTheStart(t *testing.T) {
	k := client.New(answering{})
	receiptsOnly := map[string]grpcguard.Method{refundOp: {Outage: client.OutageReceiptsOnly}}
	none := map[string]grpcguard.Method{refundOp: {Outage: client.OutageReceiptsOnly, NoReceipts: true}}
	for name, cfg := range map[string]grpcguard.Config{
		"receipts only, without any":         {Methods: receiptsOnly},
		"receipts only, of a method without": {Methods: none, Receipts: &fakereceipts.Store{}},
		"no outage mode":                     {Methods: map[string]grpcguard.Method{refundOp: {Outage: 9}}},
	} {
		cfg.Tenant = acme
		if _, err := grpcguard.New(k, cfg); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
	cfg := grpcguard.OutgoingConfig{Config: grpcguard.Config{Tenant: acme, Receipts: &fakereceipts.Store{}}}
	if _, err := grpcguard.NewOutgoing(k, cfg); err == nil {
		t.Error("outgoing calls have receipts")
	}
}

func TestInTxGivesTheMethodsOwnResponse(t *testing.T) {
	b := newBank(t, grpcguard.Method{})
	b.refund = func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		_, err := fakereceipts.InTx(ctx, b.db, func(context.Context) (*testservicev1.ChargeResponse, error) {
			return &testservicev1.ChargeResponse{}, nil
		})
		return nil, err
	}
	if _, told := b.refundOnce(t, "k"); told.err == nil {
		t.Error("another method's response is taken")
	}
	if n := b.db.Effects(refundKey); n != 0 {
		t.Errorf("it happened %d times", n)
	}
}
