package grpcguard_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/attach"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// holding is a service whose Refund runs until it is let go.
func holding(t *testing.T) (s *service, running <-chan struct{}, letGo func()) {
	started, release := make(chan struct{}, 8), make(chan struct{})
	s = &service{refund: func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		started <- struct{}{}
		<-release
		return &testservicev1.RefundResponse{Name: "refunds/1"}, nil
	}}
	over := false
	letGo = func() {
		if !over {
			over = true
			close(release)
		}
	}
	t.Cleanup(letGo)
	return s, started, letGo
}

func TestACallBesideARunningOneIsToldWhenToComeBack(t *testing.T) {
	for _, c := range []struct {
		cfg  grpcguard.Config
		code codes.Code
	}{{grpcguard.Config{}, codes.Aborted}, {grpcguard.Config{InProgressUnavailable: true}, codes.Unavailable}} {
		t.Run(c.code.String(), func(t *testing.T) {
			s, running, letGo := holding(t)
			g := serve(t, startKeeper(t), s, c.cfg)
			first := make(chan reply, 1)
			go func() {
				_, told := g.refundOnce(t, "k")
				first <- told
			}()
			<-running
			_, told := g.refundOnce(t, "k")
			e := refusal(t, told.err, oncekeeper.ErrInProgress, refundOp, c.code)
			if e.delay != 200*time.Millisecond { // a hundredth of the lease of 20 s
				t.Errorf("RetryInfo says %v, want 200ms", e.delay)
			}
			if got := told.trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "200" {
				t.Errorf("the pushback is %q, want 200", got)
			}
			if got := told.trailer.Get(wire.ReasonTrailer); len(got) != 1 || got[0] != "IN_PROGRESS" {
				t.Errorf("the trailer oncekeeper-reason is %q", got)
			}
			letGo()
			mustBe(t, (<-first).err, codes.OK)
			if s.runs() != 1 {
				t.Errorf("the handler ran %d times", s.runs())
			}
		})
	}
}

// gRPC retries an answer by its own policy only where it is trailers alone, and
// then honours the pushback.
func TestGRPCsOwnRetriesWaitForTheOtherAttempt(t *testing.T) {
	s, running, letGo := holding(t)
	k := startKeeper(t, func(p *policy.Policy) { p.MaxLease, p.Lease = 2*time.Second, 2*time.Second })
	g := serve(t, k, s, grpcguard.Config{}, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED"]}}]}`))
	answers := make(chan reply, 2)
	call := func() {
		_, told := g.refundOnce(t, "k")
		answers <- told
	}
	go call()
	<-running
	go call()
	for g.guard.Stats().InProgress < 2 {
		time.Sleep(time.Millisecond) // gRPC's pushback is on no clock of ours
	}
	letGo()
	for range 2 {
		mustBe(t, (<-answers).err, codes.OK)
	}
	if got := g.guard.Stats(); got.Ran != 1 || got.Replayed != 1 {
		t.Errorf("counted %+v, want one that ran and one replayed", got)
	}
}

func TestACallWaitsForAnotherAsLongAsConfigured(t *testing.T) {
	s, running, letGo := holding(t)
	k := startKeeper(t)
	g := serve(t, k, s, grpcguard.Config{Methods: map[string]grpcguard.Method{refundOp: {
		Wait: 5 * time.Second, Codes: map[codes.Code]oncekeeper.Settlement{codes.Internal: final},
	}}})
	answers := make(chan reply, 2)
	call := func() {
		_, told := g.refundOnce(t, "k")
		answers <- told
	}
	go call()
	<-running
	go call()
	// The second call's wait is a timer of the server's.
	if err := k.clock.AwaitTimers(keyed(t), 1); err != nil {
		t.Fatal(err)
	}
	letGo()
	for range 2 {
		mustBe(t, (<-answers).err, codes.OK)
	}
	if got := g.guard.Stats(); got.Ran != 1 || got.Replayed != 1 || got.InProgress != 0 {
		t.Errorf("counted %+v, want one that ran and one replayed, and nobody sent away", got)
	}
}

func TestAnAttachedCallerGetsTheAnswerOfTheOther(t *testing.T) {
	s, running, letGo := holding(t)
	k := startKeeper(t)
	g := serve(t, k, s, grpcguard.Config{}, grpc.WithChainUnaryInterceptor(
		attach.UnaryClientInterceptor(attach.WithClock(k.clock), attach.WithMaxElapsed(time.Hour))))
	answers := make(chan error, 2)
	call := func() {
		response, err := g.Refund(t.Context(), &testservicev1.RefundRequest{}, attach.Key("k"))
		if err == nil && response.GetName() != "refunds/1" {
			err = errors.New("the answer is " + response.GetName())
		}
		answers <- err
	}
	go call()
	<-running
	go call()
	for polls := int64(1); polls < 4; polls++ {
		// The caller waits on the clock that this test moves.
		if err := k.clock.AwaitTimers(keyed(t), 1); err != nil {
			t.Fatal(err)
		}
		if got := g.guard.Stats().InProgress; got != polls {
			t.Fatalf("asked %d times, want %d", got, polls)
		}
		if polls < 3 {
			k.clock.Advance(3 * time.Second)
		}
	}
	letGo()
	mustBe(t, <-answers, codes.OK)
	k.clock.Advance(3 * time.Second)
	mustBe(t, <-answers, codes.OK)
	if s.runs() != 1 {
		t.Errorf("the handler ran %d times", s.runs())
	}
	// Case 17: a mismatch is asked once.
	before := g.guard.Stats().Mismatch
	_, err := g.Refund(t.Context(), &testservicev1.RefundRequest{Charge: "another"}, attach.Key("k"))
	refusal(t, err, oncekeeper.ErrFingerprintMismatch, refundOp, codes.FailedPrecondition)
	if got := g.guard.Stats().Mismatch - before; got != 1 {
		t.Errorf("a mismatch was asked for %d times, want once", got)
	}
}

func TestAKeyOfUnknownOutcomeIsHeldWhereTheMethodSaysSo(t *testing.T) {
	k := startKeeper(t)
	s := &service{refund: func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		return nil, status.Error(codes.Internal, "nobody knows")
	}}
	g := serve(t, k, s, grpcguard.Config{})
	_, told := g.refundOnce(t, "k")
	mustBe(t, told.err, codes.Internal)
	_, told = g.refundOnce(t, "k")
	e := refusal(t, told.err, oncekeeper.ErrUnresolved, refundOp, codes.FailedPrecondition)
	if got := told.trailer.Get(wire.ReasonTrailer); len(got) != 1 || got[0] != "UNRESOLVED" {
		t.Errorf("the trailer oncekeeper-reason is %q", got)
	}
	rec := k.record(t, refundOp, "k")
	if e.metadata["fencing_token"] != strconv.FormatInt(rec.Token, 10) || e.metadata["attempt_number"] != "1" {
		t.Errorf("the refusal says %v, want the fencing token %d and attempt 1", e.metadata, rec.Token)
	}
	if s.runs() != 1 || k.record(t, refundOp, "k").State != oncekeeper.StateUnresolved {
		t.Errorf("the handler ran %d times, and the key is %v; want once, and UNRESOLVED", s.runs(), k.record(t, refundOp, "k").State)
	}
}

func TestAnAnnotationsTermsAreAskedFor(t *testing.T) {
	k := startKeeper(t)
	g := serve(t, k, &service{}, grpcguard.Config{})
	before := oncekeeper.InstantOf(k.clock.Now())
	_, told := g.refundOnce(t, "k")
	mustBe(t, told.err, codes.OK)
	rec := k.record(t, refundOp, "k")
	if lease, kept := rec.LeaseEnd.Sub(before), rec.Expires.Sub(before); lease != 20*time.Second || kept != time.Hour || !rec.Hold || rec.FingerprintScheme != "pb1" {
		t.Errorf("the lease is %v, the retention %v, hold %t, the scheme %q; want 20s, 1h, true, pb1", lease, kept, rec.Hold, rec.FingerprintScheme)
	}
}

func TestWhenItsAttemptsAreUsedUpTheLastWordIsTold(t *testing.T) {
	k, s := startKeeper(t), &service{}
	s.refund = func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		return nil, oncekeeper.NotApplied(status.Error(codes.Unavailable, "no stock, try "+strconv.Itoa(s.runs())))
	}
	g := serve(t, k, s, grpcguard.Config{})
	for range 3 {
		_, told := g.refundOnce(t, "k")
		mustBe(t, told.err, codes.Unavailable)
	}
	for range 2 {
		_, told := g.refundOnce(t, "k")
		e := refusal(t, told.err, oncekeeper.ErrAttemptsExhausted, refundOp, codes.FailedPrecondition)
		if want := "the last gave Unavailable: no stock, try 3"; !strings.HasSuffix(e.text, want) {
			t.Errorf("the refusal says %q, want %q at its end", e.text, want)
		}
	}
	if got := g.guard.Stats(); got.Ran != 3 || got.Exhausted != 2 {
		t.Errorf("counted %+v, want 3 that ran and 2 exhausted", got)
	}
}
