package grpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

const (
	final    = oncekeeper.SettledFinal
	released = oncekeeper.SettledRetryable
	unknown  = oncekeeper.SettledUnknown
)

// row is what a handler's error is settled as, at first and on a takeover.
type row struct {
	name            string
	err             error
	code            codes.Code
	first, takeover oncekeeper.Settlement
}

func ofCode(code codes.Code, first, takeover oncekeeper.Settlement) row {
	return row{code.String(), status.Error(code, "the reason"), code, first, takeover}
}

// ours is an error as a guarded service further down answers it.
func ours(sentinel error) error {
	s, _ := oncekeeper.SentinelOf(sentinel)
	return wire.Status(s, "ledger.v1.Ledger/Post", wire.Details{}).Err()
}

// Case 18: the whole table.
var codeTable = []row{
	ofCode(codes.Canceled, unknown, unknown),
	ofCode(codes.Unknown, unknown, unknown),
	ofCode(codes.InvalidArgument, final, final),
	ofCode(codes.DeadlineExceeded, unknown, unknown),
	ofCode(codes.NotFound, final, unknown),
	ofCode(codes.AlreadyExists, final, unknown),
	ofCode(codes.PermissionDenied, unknown, unknown),
	ofCode(codes.ResourceExhausted, unknown, unknown),
	ofCode(codes.FailedPrecondition, final, unknown),
	ofCode(codes.Aborted, unknown, unknown),
	ofCode(codes.OutOfRange, final, final),
	ofCode(codes.Unimplemented, unknown, unknown),
	ofCode(codes.Internal, unknown, unknown),
	ofCode(codes.Unavailable, unknown, unknown),
	ofCode(codes.DataLoss, final, final),
	ofCode(codes.Unauthenticated, unknown, unknown),

	{"an error that is no status", errors.New("oops"), codes.Unknown, unknown, unknown},
	{"a context's cancellation", fmt.Errorf("reading: %w", context.Canceled), codes.Canceled, unknown, unknown},
	{"a context's deadline", context.DeadlineExceeded, codes.DeadlineExceeded, unknown, unknown},
	{"final UNAVAILABLE", oncekeeper.Final(status.Error(codes.Unavailable, "closed for good")), codes.Unavailable, final, final},
	{"final NOT_FOUND", oncekeeper.Final(status.Error(codes.NotFound, "never was")), codes.NotFound, final, final},
	{"a final error that is no status", oncekeeper.Final(errors.New("no")), codes.Unknown, final, final},
	{"NOT_FOUND that applied nothing", oncekeeper.NotApplied(status.Error(codes.NotFound, "not yet")), codes.NotFound, released, released},
	{"an error that applied nothing", fmt.Errorf("early: %w", oncekeeper.NotApplied(errors.New("no stock"))), codes.Unknown, released, released},
	{"a sentinel", fmt.Errorf("writing: %w", oncekeeper.ErrFenced), codes.Unknown, unknown, unknown},
	{"a final sentinel", oncekeeper.Final(oncekeeper.ErrFenced), codes.Unknown, unknown, unknown},
	{"a nested FAILED_PRECONDITION of Oncekeeper", ours(oncekeeper.ErrUnresolved), codes.FailedPrecondition, unknown, unknown},
	{"a nested one made final", oncekeeper.Final(fmt.Errorf("posting: %w", ours(oncekeeper.ErrResponseNotKept))), codes.FailedPrecondition, unknown, unknown},
	{"a nested INVALID_ARGUMENT of Oncekeeper", ours(oncekeeper.ErrInvalidRequest), codes.InvalidArgument, unknown, unknown},
	{"a nested one that applied nothing", oncekeeper.NotApplied(ours(oncekeeper.ErrInProgress)), codes.Aborted, released, released},
}

func TestEveryErrorIsSettledAsTheTableSays(t *testing.T) {
	if len(codeTable) < int(codes.Unauthenticated) {
		t.Fatal("the table lacks a code")
	}
	k := startKeeper(t)
	for _, takeover := range []bool{false, true} {
		for _, r := range codeTable {
			t.Run(fmt.Sprintf("%s/takeover=%t", r.name, takeover), func(t *testing.T) {
				checkRow(t, k, r, takeover, grpcguard.Config{})
			})
		}
	}
}

// checkRow has a handler give r.err, on a takeover where asked, and looks at what
// its caller gets, what is kept, and what the next call gets.
func checkRow(t *testing.T, k *keeper, r row, takeover bool, cfg grpcguard.Config) {
	t.Helper()
	id, want := "first "+r.name, r.first
	answers := []error{r.err, nil}
	if takeover {
		id, want = "takeover "+r.name, r.takeover
		answers = []error{status.Error(codes.Unavailable, "the outcome of this one is unknown"), r.err, nil}
	}
	s := &service{}
	s.capture = func(ctx context.Context, _ *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
		if a, ok := grpcguard.AttemptFrom(ctx); !ok || a.Takeover() != (s.runs() > 1 && (takeover || want == unknown)) {
			t.Errorf("run %d has an attempt: %t, and took over: %t", s.runs(), ok, ok && a.Takeover())
		}
		return &testservicev1.CaptureResponse{}, answers[s.runs()-1]
	}
	g := serve(t, k, s, cfg)
	call := func() reply {
		var told reply
		_, told.err = g.Capture(keyed(t, id), &testservicev1.CaptureRequest{}, told.options()...)
		return told
	}
	if takeover {
		mustBe(t, call().err, codes.Unavailable)
	}
	told := call()
	mustBe(t, told.err, r.code)
	if told.replayed() {
		t.Errorf("the handler's own answer is marked a replay")
	}
	ran := s.runs()

	state := map[oncekeeper.Settlement]oncekeeper.State{
		final: oncekeeper.StateFailed, released: oncekeeper.StateReleased, unknown: oncekeeper.StateAbandoned,
	}[want]
	if got := k.record(t, captureOp, id).State; got != state {
		t.Errorf("it was settled so that the key is %v, want %v", got, state)
	}
	again := call()
	if want == final {
		mustBe(t, again.err, r.code)
		if s.runs() != ran || !again.replayed() || status.Convert(again.err).Message() != status.Convert(told.err).Message() {
			t.Errorf("the next call ran the handler: %t, and got %v (a replay: %t); want a replay of %v", s.runs() != ran, again.err, again.replayed(), told.err)
		}
		return
	}
	if s.runs() != ran+1 || again.err != nil {
		t.Errorf("the next call ran the handler: %t, and got %v; want another run", s.runs() != ran, again.err)
	}
}

func TestATableCanBeChangedForAMethod(t *testing.T) {
	k := startKeeper(t)
	cfg := grpcguard.Config{Methods: map[string]grpcguard.Method{captureOp: {
		Codes: map[codes.Code]oncekeeper.Settlement{
			codes.PermissionDenied: final, codes.Unavailable: unknown, codes.ResourceExhausted: released,
			codes.NotFound: released, codes.OutOfRange: unknown, codes.FailedPrecondition: final, codes.Aborted: final,
			codes.Unimplemented: released,
		},
		TakeoverCodes: map[codes.Code]oncekeeper.Settlement{codes.AlreadyExists: final, codes.OutOfRange: final},
	}}}
	for _, r := range []row{
		ofCode(codes.PermissionDenied, final, final),
		ofCode(codes.ResourceExhausted, released, released),
		ofCode(codes.NotFound, released, unknown),
		ofCode(codes.Unimplemented, released, released),
		ofCode(codes.OutOfRange, unknown, final),
		ofCode(codes.AlreadyExists, final, final),
		ofCode(codes.FailedPrecondition, final, unknown),
		ofCode(codes.InvalidArgument, final, final),
		ofCode(codes.Internal, unknown, unknown),
		{"a nested ABORTED of Oncekeeper", ours(oncekeeper.ErrInProgress), codes.Aborted, unknown, unknown},
	} {
		for _, takeover := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/takeover=%t", r.name, takeover), func(t *testing.T) {
				checkRow(t, k, r, takeover, cfg)
			})
		}
	}
}

// A mailer's old replica answers so once the charge is made.
func TestUNIMPLEMENTEDFromFurtherDownDoesNotRunTheEffectAgain(t *testing.T) {
	charged := 0
	s := &service{charge: func(ctx context.Context, _ *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
		if a, _ := grpcguard.AttemptFrom(ctx); a.Takeover() {
			return &testservicev1.ChargeResponse{Name: "found"}, nil
		}
		charged++
		return nil, status.Error(codes.Unimplemented, "unknown service mail.v2.Mailer")
	}}
	g := serve(t, startKeeper(t), s, grpcguard.Config{})
	for _, code := range []codes.Code{codes.Unimplemented, codes.OK} {
		_, err := g.Charge(keyed(t, "k"), &testservicev1.ChargeRequest{Cents: 5})
		mustBe(t, err, code)
	}
	if charged != 1 {
		t.Errorf("charged %d times, want once: the second call takes over", charged)
	}
}
