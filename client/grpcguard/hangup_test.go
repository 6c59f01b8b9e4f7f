package grpcguard_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Case 16.
func TestACallWhoseCallerHangsUpIsSettledAllTheSame(t *testing.T) {
	// Each leaves at another moment; leave returns once the server knows.
	type leaving func(leave func())
	leaves := func(leave func()) { leave() }
	for name, moment := range map[string]struct{ inHandler, beforeComplete, onComplete leaving }{
		"while the handler runs":    {inHandler: leaves},
		"before it is settled":      {beforeComplete: leaves},
		"while it is being settled": {onComplete: leaves},
	} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			ctx, cancel := context.WithCancel(keyed(t, "k"))
			gone := make(chan struct{})
			leave := func() {
				cancel()
				<-gone
			}
			s.refund = func(run context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
				if moment.inHandler != nil {
					moment.inHandler(leave)
				}
				if _, ok := run.Deadline(); ok || run.Err() != nil {
					t.Errorf("the handler's context ends with its caller: %v", run.Err())
				}
				// What goes to a caller that left is no failure of the handler.
				return &testservicev1.RefundResponse{Name: "refunds/1"}, errors.Join(
					grpc.SetHeader(run, metadata.Pairs("a", "1")), grpc.SendHeader(run, metadata.Pairs("b", "2")), grpc.SetTrailer(run, metadata.Pairs("c", "3")))
			}
			k.breakWith(func(method string) error {
				if method == "Complete" && moment.beforeComplete != nil {
					moment.beforeComplete(leave)
				}
				return nil
			})
			k.answered(func(method string) {
				if method == "Complete" && moment.onComplete != nil {
					moment.onComplete(leave)
				}
			})
			g := serve(t, k, s, grpcguard.Config{})
			go func() {
				_, err := g.Refund(ctx, &testservicev1.RefundRequest{Charge: "charges/1"})
				if status.Code(err) != codes.Canceled {
					t.Errorf("the caller that left got %v", err)
				}
				close(gone)
			}()
			<-gone
			for {
				again, told := g.refundOnce(t, "k")
				if told.err == nil {
					if again.GetName() != "refunds/1" || !told.replayed() {
						t.Errorf("the retry got %v, a replay: %t; want the replay", again, told.replayed())
					}
					break
				}
				mustBe(t, told.err, codes.Aborted)
			}
			if s.runs() != 1 {
				t.Errorf("the handler ran %d times", s.runs())
			}
		})
	}
}

func TestACallWhoseCallerLeftBeforeItBeganIsNotRun(t *testing.T) {
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Tenant: acme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(incoming(t, "k"))
	cancel()
	_, err = guard.Unary()(ctx, &testservicev1.RefundRequest{}, info(refundOp), func(context.Context, any) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	mustBe(t, err, codes.Canceled)
	if got := guard.Stats(); got != (grpcguard.Stats{Left: 1}) {
		t.Errorf("counted %+v, want one that left", got)
	}
}

func TestAHandlersContextEndsAtItsMaximumRunTime(t *testing.T) {
	s := &service{refund: func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), client.ErrRunTime) {
			t.Errorf("the context ended because %v", context.Cause(ctx))
		}
		return nil, ctx.Err()
	}}
	k := startKeeper(t)
	g := serve(t, k, s, grpcguard.Config{Methods: map[string]grpcguard.Method{refundOp: {MaxRunTime: time.Millisecond}}})
	_, told := g.refundOnce(t, "k")
	mustBe(t, told.err, codes.Canceled)
	if got := k.record(t, refundOp, "k").State; got != oncekeeper.StateUnresolved {
		t.Errorf("the key is %v, want UNRESOLVED: its outcome is unknown", got)
	}
}

func TestAPanicIsSettledAsUnknownAndGoesOnUp(t *testing.T) {
	s := &service{refund: func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		panic("at the disco")
	}}
	k := startKeeper(t)
	g := serve(t, k, s, grpcguard.Config{})
	_, told := g.refundOnce(t, "k")
	if status.Code(told.err) != codes.Internal || status.Convert(told.err).Message() != "recovered at the disco" {
		t.Errorf("the answer is %v, want that of the recovery outside", told.err)
	}
	if got := k.record(t, refundOp, "k").State; got != oncekeeper.StateUnresolved {
		t.Errorf("the key is %v, want UNRESOLVED, since the method says hold", got)
	}
}

func TestWhereOncekeeperCannotBeAskedNothingRuns(t *testing.T) {
	for name, err := range map[string]error{
		"down":        status.Error(codes.Unavailable, "connection refused"),
		"not allowed": status.Error(codes.PermissionDenied, "not this guard"),
	} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			g := serve(t, k, s, grpcguard.Config{})
			k.breakWith(func(string) error { return err })
			_, told := g.refundOnce(t, "k")
			e := refusal(t, told.err, oncekeeper.ErrStoreUnavailable, refundOp, codes.Unavailable)
			if e.delay <= 0 || told.trailer.Get("grpc-retry-pushback-ms") == nil {
				t.Errorf("the answer names no delay: %v, %v", e.delay, told.trailer)
			}
			if s.runs() != 0 {
				t.Errorf("the handler ran %d times", s.runs())
			}
			k.breakWith(nil)
			_, told = g.refundOnce(t, "k")
			mustBe(t, told.err, codes.OK)
			if got := g.guard.Stats(); got != (grpcguard.Stats{Unavailable: 1, Ran: 1}) {
				t.Errorf("counted %+v, want one unavailable and one that ran", got)
			}
		})
	}
}

func TestAnAnswerThatCouldNotBeSettledIsGivenAllTheSame(t *testing.T) {
	for name, err := range map[string]error{
		"no verdict":    status.Error(codes.PermissionDenied, "the credential expired meanwhile"),
		"no record now": ours(oncekeeper.ErrKeyNotFound),
	} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			k.connect(client.WithSettleTimeout(10 * time.Millisecond)) // it is tried again all that while
			g := serve(t, k, s, grpcguard.Config{})
			k.breakWith(func(method string) error {
				if method == "Complete" {
					return err
				}
				return nil
			})
			response, told := g.refundOnce(t, "k")
			if told.err != nil || response.GetName() != "refunds/1" || told.replayed() {
				t.Errorf("the answer is %v, %v; want the handler's", response, told.err)
			}
			k.breakWith(nil)
			_, told = g.refundOnce(t, "k")
			refusal(t, told.err, oncekeeper.ErrInProgress, refundOp, codes.Aborted) // the lease runs
			k.clock.Advance(time.Minute)
			_, told = g.refundOnce(t, "k")
			refusal(t, told.err, oncekeeper.ErrUnresolved, refundOp, codes.FailedPrecondition)
			if s.runs() != 1 {
				t.Errorf("the handler ran %d times", s.runs())
			}
		})
	}
}

func TestASupersededAttemptsCallerGetsTheOutcomeThatCounts(t *testing.T) {
	for name, mine := range map[string]error{"that was OK": nil, "that failed": status.Error(codes.NotFound, "mine")} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			s.capture = func(ctx context.Context, _ *testservicev1.CaptureRequest) (*testservicev1.CaptureResponse, error) {
				a, _ := grpcguard.AttemptFrom(ctx)
				k.clock.Advance(time.Hour) // this one was stopped, and its lease ran out
				scheme, digest := a.Fingerprint()
				next, err := k.Begin(t.Context(), client.BeginRequest{Key: a.Key(), FingerprintScheme: scheme, Fingerprint: digest})
				if err != nil || next.Grant == nil || next.Grant.Token <= a.Token() {
					t.Errorf("the other attempt was given %+v, %v", next, err)
					return nil, err
				}
				_, err = k.Complete(t.Context(), a.Key(), next.Grant.Token, &oncekeeper.Response{
					Body: []byte("\x0a\x05other"), ContentType: "type.googleapis.com/testservice.v1.CaptureResponse",
				})
				return &testservicev1.CaptureResponse{Name: "mine"}, errors.Join(err, grpc.SetHeader(ctx, metadata.Pairs("whose", "mine")), mine)
			}
			g := serve(t, k, s, grpcguard.Config{})
			var told reply
			_, told.err = g.Capture(keyed(t, "k"), &testservicev1.CaptureRequest{}, told.options()...)
			e := refusal(t, told.err, oncekeeper.ErrInProgress, captureOp, codes.Aborted)
			if e.delay <= 0 || told.header["whose"] != nil {
				t.Errorf("the answer names the delay %v and the header %v, want one and nothing of the attempt's", e.delay, told.header)
			}
			response, err := g.Capture(keyed(t, "k"), &testservicev1.CaptureRequest{})
			if err != nil || response.GetName() != "other" || s.runs() != 1 {
				t.Errorf("the retry got %v, %v after %d runs; want the other's answer after one", response, err, s.runs())
			}
			if got := g.guard.Stats(); got != (grpcguard.Stats{Ran: 1, Superseded: 1, Replayed: 1}) {
				t.Errorf("counted %+v, want one that ran, superseded, and one replayed", got)
			}
		})
	}
}

func TestAGuardTwiceInAChainSaysSo(t *testing.T) {
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Tenant: acme, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := incoming(t, "k")
	_, err = guard.Unary()(ctx, &testservicev1.CaptureRequest{}, info(captureOp), func(ctx context.Context, request any) (any, error) {
		return guard.Unary()(ctx, request, info(captureOp), func(context.Context, any) (any, error) {
			t.Error("the handler ran")
			return nil, nil
		})
	})
	mustBe(t, err, codes.Internal)
}

// An outcome of a kind that this version does not know must not run the handler.
func TestAnOutcomeOfANewerVersionIsNoGrant(t *testing.T) {
	unknownOutcome := &pb.BeginResponse{Result: &pb.BeginResponse_Outcome{Outcome: &pb.Outcome{}}}
	guard, err := grpcguard.New(client.New(answering{unknownOutcome}), grpcguard.Config{Tenant: acme, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := incoming(t, "k")
	_, err = guard.Unary()(ctx, &testservicev1.CaptureRequest{}, info(captureOp), func(context.Context, any) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	mustBe(t, err, codes.Internal)
}
