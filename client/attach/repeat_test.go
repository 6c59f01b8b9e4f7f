package attach_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// refundWith makes one call of Refund with a key and gives the attempts that the
// service saw.
func refundWith(t *testing.T, s *service, options ...attach.Option) ([]call, error) {
	t.Helper()
	_, err := start(t, s, options...).Refund(t.Context(), &testservicev1.RefundRequest{}, attach.Key("k"))
	return s.seen(), err
}

func pushback(values ...string) metadata.MD { return metadata.MD{"grpc-retry-pushback-ms": values} }

func TestTheAnswerOfTheOtherAttemptIsWaitedFor(t *testing.T) {
	strippedDetails := status.Error(codes.Aborted, "details were lost on the way")
	trailerReason := metadata.Pairs(wire.ReasonTrailer, "IN_PROGRESS")
	asUnavailable, err := status.New(codes.Unavailable, "in progress").WithDetails(
		&errdetails.ErrorInfo{Domain: "oncekeeper", Reason: "IN_PROGRESS", Metadata: map[string]string{"operation": refund}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer answer
		least  time.Duration
	}{
		"RetryInfo":                       {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, 3*time.Second)}, 3 * time.Second},
		"pushback":                        {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, 0), trailer: pushback("4000")}, 4 * time.Second},
		"the longer of both":              {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, 3*time.Second), trailer: pushback("4000")}, 4 * time.Second},
		"the longer of both, turned":      {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, 4*time.Second), trailer: pushback("0")}, 4 * time.Second},
		"no delay named":                  {answer{err: refusal(t, oncekeeper.ErrInProgress, refund, 0)}, attach.DefaultMinDelay},
		"told by the trailer alone":       {answer{err: strippedDetails, trailer: trailerReason}, attach.DefaultMinDelay},
		"UNAVAILABLE, as a guard can say": {answer{err: asUnavailable.Err()}, attach.DefaultMinDelay},
	} {
		t.Run(name, func(t *testing.T) {
			calls, err := refundWith(t, &service{answers: []answer{c.answer, {}}})
			if err != nil || len(calls) != 2 {
				t.Fatalf("%d attempts, error %v; want 2 and none", len(calls), err)
			}
			if waited := calls[1].at - calls[0].at; waited < c.least || waited > c.least*3 {
				t.Errorf("waited %v between the attempts, want %v or somewhat more", waited, c.least)
			}
		})
	}
}

// Case 17.
func TestWhatAnotherAttemptCannotChangeIsAskedOnce(t *testing.T) {
	nested := func(code codes.Code, reason string) error {
		st, err := status.New(code, "from further down").WithDetails(
			&errdetails.ErrorInfo{Domain: "oncekeeper", Reason: reason, Metadata: map[string]string{"operation": "ledger.v1.Ledger/Post"}})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for name, a := range map[string]answer{
		"a mismatch":                       {err: refusal(t, oncekeeper.ErrFingerprintMismatch, refund, 0)},
		"a fenced attempt":                 {err: refusal(t, oncekeeper.ErrFenced, refund, 0)},
		"an invalid request":               {err: refusal(t, oncekeeper.ErrInvalidRequest, refund, 0)},
		"an unresolved key":                {err: refusal(t, oncekeeper.ErrUnresolved, refund, 0)},
		"a response not kept":              {err: refusal(t, oncekeeper.ErrResponseNotKept, refund, 0)},
		"attempts used up":                 {err: refusal(t, oncekeeper.ErrAttemptsExhausted, refund, 0)},
		"an overload":                      {err: refusal(t, oncekeeper.ErrOverloaded, refund, time.Millisecond)},
		"IN_PROGRESS further down":         {err: nested(codes.Aborted, "IN_PROGRESS")},
		"the same as UNAVAILABLE":          {err: nested(codes.Unavailable, "IN_PROGRESS")},
		"the same, and a trailer from far": {err: nested(codes.Aborted, "IN_PROGRESS"), trailer: metadata.Pairs(wire.ReasonTrailer, "IN_PROGRESS")},
		"IN_PROGRESS with a pushback of -1": {
			err: refusal(t, oncekeeper.ErrInProgress, refund, time.Millisecond), trailer: pushback("-1")},
		"IN_PROGRESS with an unreadable pushback": {
			err: refusal(t, oncekeeper.ErrInProgress, refund, time.Millisecond), trailer: pushback("soon")},
		"IN_PROGRESS with a pushback of 33 bits": {
			err: refusal(t, oncekeeper.ErrInProgress, refund, time.Millisecond), trailer: pushback("8589934592")},
		"IN_PROGRESS with a pushback that overflows": {
			err: refusal(t, oncekeeper.ErrInProgress, refund, time.Millisecond), trailer: pushback("9223372036854775807")},
		"IN_PROGRESS with two pushbacks": {
			err: refusal(t, oncekeeper.ErrInProgress, refund, time.Millisecond), trailer: pushback("1", "1")},
		"ABORTED of the service's own": {err: status.Error(codes.Aborted, "try again")},
		"DEADLINE_EXCEEDED":            {err: status.Error(codes.DeadlineExceeded, "late")},
		"INTERNAL":                     {err: status.Error(codes.Internal, "oops")},
	} {
		t.Run(name, func(t *testing.T) {
			calls, err := refundWith(t, &service{answers: []answer{a, {}}}, attach.WithRetryUnavailable())
			if len(calls) != 1 || status.Code(err) != status.Code(a.err) {
				t.Errorf("%d attempts, error %v; want one, and %v", len(calls), err, a.err)
			}
		})
	}
}

func TestUNAVAILABLEIsRetriedOnlyWhereAskedAndWithAKey(t *testing.T) {
	down := []answer{{err: status.Error(codes.Unavailable, "down")}, {}}
	if calls, err := refundWith(t, &service{answers: down}); len(calls) != 1 || status.Code(err) != codes.Unavailable {
		t.Errorf("by default: %d attempts, error %v; want one, UNAVAILABLE", len(calls), err)
	}
	if calls, err := refundWith(t, &service{answers: down}, attach.WithRetryUnavailable()); len(calls) != 2 || err != nil {
		t.Errorf("where asked: %d attempts, error %v; want two, and OK", len(calls), err)
	}
	s := &service{answers: down}
	client := start(t, s, attach.WithRetryUnavailable())
	if _, err := client.Look(t.Context(), &testservicev1.LookRequest{}); status.Code(err) != codes.Unavailable || len(s.seen()) != 1 {
		t.Errorf("without a key: %d attempts, error %v; want one, UNAVAILABLE", len(s.seen()), err)
	}
}

func TestRetriesOfUNAVAILABLETakeBudgetAndWaitingForAnotherDoesNot(t *testing.T) {
	s := &service{answers: []answer{{err: status.Error(codes.Unavailable, "down")}}}
	client := start(t, s, attach.WithRetryUnavailable(), attach.WithBudget(6, 4), attach.WithMaxElapsed(time.Hour))
	refundOnce := func() error {
		_, err := client.Refund(t.Context(), &testservicev1.RefundRequest{}, attach.Key("k"))
		return err
	}
	if err := refundOnce(); status.Code(err) != codes.Unavailable || !strings.Contains(status.Convert(err).Message(), "attach.WithBudget") {
		t.Fatalf("error %v, want UNAVAILABLE that says why it was not sent again", err)
	}
	if n := len(s.seen()); n != 3 {
		t.Fatalf("%d attempts on 6 tokens, want 3: two retries, and half the tokens left", n)
	}
	s.mu.Lock()
	inProgress := answer{err: refusal(t, oncekeeper.ErrInProgress, refund, time.Second)}
	s.calls, s.answers = nil, []answer{inProgress, inProgress, inProgress, inProgress, inProgress, inProgress, inProgress, {}}
	s.mu.Unlock()
	if err := refundOnce(); err != nil || len(s.seen()) != 8 {
		t.Fatalf("with no budget left, waiting made %d attempts and gave %v; want 8 and OK", len(s.seen()), err)
	}
	s.mu.Lock()
	s.calls, s.answers = nil, []answer{{err: refusal(t, oncekeeper.ErrInProgress, refund, 0)}}
	s.mu.Unlock()
	if err := refundOnce(); !isInProgress(err) || len(s.seen()) != 3 {
		t.Fatalf("with the 6 tokens that the success gave back, IN_PROGRESS that names no delay made %d attempts and gave %v; want 3, since each takes a token", len(s.seen()), err)
	}
}

func isInProgress(err error) bool {
	return errors.Is(wire.FromError(err, nil), oncekeeper.ErrInProgress)
}

func TestWithoutADeadlineRetryingEndsAfterTheTimeThatIsSet(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		least   int
		most    int
	}{{10 * time.Second, 5, 10}, {time.Second, 1, 1}, {0, 1, 1}, {-time.Second, 1, 1}} {
		s := &service{answers: []answer{{err: refusal(t, oncekeeper.ErrInProgress, refund, time.Second)}}}
		calls, err := refundWith(t, s, attach.WithMaxElapsed(c.elapsed), attach.WithDelays(time.Millisecond, time.Millisecond))
		if !isInProgress(err) {
			t.Errorf("error %v, want the last answer, IN_PROGRESS", err)
		}
		if len(calls) < c.least || len(calls) > c.most {
			t.Errorf("%d attempts a second apart in %v, want %d to %d", len(calls), c.elapsed, c.least, c.most)
		}
	}
}

func TestNoAttemptIsBegunThatTheDeadlineWouldEnd(t *testing.T) {
	s := &service{answers: []answer{{err: refusal(t, oncekeeper.ErrInProgress, refund, time.Hour)}}}
	client := start(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := time.Now()
	_, err := client.Refund(ctx, &testservicev1.RefundRequest{}, attach.Key("k"))
	if !isInProgress(err) || len(s.seen()) != 1 {
		t.Errorf("%d attempts, error %v; want one, and its answer", len(s.seen()), err)
	}
	if took := time.Since(before); took > 30*time.Second {
		t.Errorf("it took %v to say so, want at once", took)
	}
}

func TestACallerThatLeavesEndsTheWait(t *testing.T) {
	s := &service{answers: []answer{{err: refusal(t, oncekeeper.ErrInProgress, refund, time.Minute)}}}
	standing := clock.NewManual(time.Now())
	client := start(t, s, attach.WithMaxElapsed(time.Hour), attach.WithClock(standing))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = standing.AwaitTimers(ctx, 1)
		cancel()
	}()
	_, err := client.Refund(ctx, &testservicev1.RefundRequest{}, attach.Key("k"))
	if status.Code(err) != codes.Canceled || len(s.seen()) != 1 {
		t.Errorf("%d attempts, error %v; want one, CANCELLED", len(s.seen()), err)
	}
}

func TestHeaderAndTrailerOptionsGiveTheLastAttempts(t *testing.T) {
	s := &service{answers: []answer{
		{err: refusal(t, oncekeeper.ErrInProgress, refund, time.Second), trailer: metadata.Pairs("which", "first")},
		{trailer: metadata.Pairs("which", "last")},
	}}
	client := start(t, s)
	var header, trailer metadata.MD
	if _, err := client.Refund(t.Context(), &testservicev1.RefundRequest{}, attach.Key("k"), grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if got := trailer["which"]; len(got) != 1 || got[0] != "last" {
		t.Errorf("the trailer is of %q, want the last attempt's", got)
	}
	if header["content-type"] == nil {
		t.Errorf("the header is %v, want the last attempt's", header)
	}
}

func TestTheCallersOptionsAreNotWrittenPastTheirEnd(t *testing.T) {
	room := make([]grpc.CallOption, 1, 8)
	room[0] = attach.Key("k")
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	err := attach.UnaryClientInterceptor()(t.Context(), "/"+refund, &testservicev1.RefundRequest{}, nil, nil, invoke, room...)
	if err != nil || room[:2][1] != nil {
		t.Errorf("error %v, and behind the caller's options stands %v; want none and nothing", err, room[:2][1])
	}
}
