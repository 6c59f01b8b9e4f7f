package grpcguard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	testservicev1 "github.com/oncekeeper/oncekeeper/client/internal/testproto/testservice/v1"
)

func TestACallRunsOnceAndItsAnswerIsReplayed(t *testing.T) {
	k, s := startKeeper(t), &service{}
	g := serve(t, k, s, grpcguard.Config{})
	first, told := g.refundOnce(t, "k")
	mustBe(t, told.err, codes.OK)
	if told.replayed() {
		t.Errorf("the first answer says that it is a replay")
	}
	for range 3 {
		again, told := g.refundOnce(t, "k")
		mustBe(t, told.err, codes.OK)
		if !proto.Equal(again, first) || !told.replayed() || told.header["idempotency-replayed"][0] != "true" {
			t.Errorf("the replay is %v with header %v, want %v and idempotency-replayed: true", again, told.header, first)
		}
	}
	if _, told := g.refundOnce(t, "other"); told.replayed() || told.err != nil {
		t.Errorf("another key's answer is a replay, or %v", told.err)
	}
	if s.runs() != 2 {
		t.Errorf("the handler ran %d times for two keys", s.runs())
	}
	if got := g.guard.Stats(); got != (grpcguard.Stats{Ran: 2, Replayed: 3}) {
		t.Errorf("counted %+v, want 2 that ran and 3 replayed", got)
	}
}

// rawBytes reads responses as they came.
type rawBytes struct{}

func (rawBytes) Name() string { return "proto" }
func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	data, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func TestAllCallersGetTheSameBytes(t *testing.T) {
	// Forty labels have as many orders as no test has runs; the unknown field is of
	// a newer build of the handler, and would move to the end.
	response := &testservicev1.ChargeResponse{Name: "charges/1", Labels: map[string]string{}, Receipt: []byte{0, 1}}
	for n := range 40 {
		response.Labels[fmt.Sprint("label ", n)] = fmt.Sprint(n)
	}
	response.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
	s := &service{charge: func(context.Context, *testservicev1.ChargeRequest) (*testservicev1.ChargeResponse, error) {
		return response, nil
	}}
	g := serve(t, startKeeper(t), s, grpcguard.Config{})
	conn := dial(t, g.listener)
	var first []byte
	for n := range 10 {
		var got []byte
		request := &testservicev1.ChargeRequest{RequestId: "k"}
		if err := conn.Invoke(t.Context(), "/"+chargeOp, request, &got, grpc.ForceCodecV2(rawBytes{})); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = got
			var read testservicev1.ChargeResponse
			if err := proto.Unmarshal(got, &read); err != nil || !proto.Equal(&read, response) {
				t.Fatalf("the first caller got %v (%v), want %v", &read, err, response)
			}
			continue
		}
		if !bytes.Equal(got, first) {
			t.Fatalf("answer %d has other bytes than the first:\n%x\n%x", n, got, first)
		}
	}
	if s.runs() != 1 {
		t.Errorf("the handler ran %d times", s.runs())
	}
}

func TestAnInterceptorOutsideReadsTheResponseByReflection(t *testing.T) {
	k := startKeeper(t)
	guard, err := grpcguard.New(k.Client, grpcguard.Config{Tenant: acme})
	if err != nil {
		t.Fatal(err)
	}
	ctx := incoming(t, "k")
	for _, call := range []string{"the first answer", "the replay"} {
		response, err := guard.Unary()(ctx, &testservicev1.RefundRequest{}, &grpc.UnaryServerInfo{FullMethod: "/" + refundOp},
			func(context.Context, any) (any, error) { return &testservicev1.RefundResponse{Name: "refunds/1"}, nil })
		if err != nil {
			t.Fatal(err)
		}
		message, ok := response.(proto.Message)
		if !ok {
			t.Fatalf("%s is a %T, want a message", call, response)
		}
		if typed, ok := message.ProtoReflect().Interface().(*testservicev1.RefundResponse); !ok || typed.GetName() != "refunds/1" {
			t.Errorf("%s reads as %v, want the handler's own type", call, message.ProtoReflect().Interface())
		}
		if want := (&testservicev1.RefundResponse{Name: "refunds/1"}); !proto.Equal(message, want) || fmt.Sprint(message) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", call, message, want)
		}
		if copied := proto.Clone(message); !proto.Equal(copied, message) {
			t.Errorf("a clone of %s is %v", call, copied)
		}
	}
}

func TestOnlyNamedHeadersAndTrailersAreReplayed(t *testing.T) {
	s := &service{refund: func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		return &testservicev1.RefundResponse{}, errors.Join(
			grpc.SetHeader(ctx, metadata.Pairs("Location", "refunds/1", "location", "refunds/2", "session", "secret")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost-bin", "\x00\xff", "trace", "secret")))
	}}
	g := serve(t, startKeeper(t), s, grpcguard.Config{ReplayHeader: []string{"Location", "location"}, ReplayTrailer: []string{"cost-bin"}})
	_, first := g.refundOnce(t, "k")
	mustBe(t, first.err, codes.OK)
	if fmt.Sprint(first.header["session"], first.trailer["trace"]) != "[secret] [secret]" {
		t.Errorf("the first caller got header %v and trailer %v, want all of both", first.header, first.trailer)
	}
	_, again := g.refundOnce(t, "k")
	if got := fmt.Sprintf("%q %q", again.header["location"], again.trailer["cost-bin"]); got != `["refunds/1" "refunds/2"] ["\x00\xff"]` {
		t.Errorf("the replay has %s, want both locations and the cost", got)
	}
	if again.header["session"] != nil || again.trailer["trace"] != nil {
		t.Errorf("the replay has header %v and trailer %v, want nothing that was not named", again.header, again.trailer)
	}
}

func TestMetadataOverTheLimitsCostsNoResponse(t *testing.T) {
	s := &service{refund: func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
		md := metadata.Pairs("big", strings.Repeat("x", oncekeeper.MaxMetadataBytes))
		for range 100 {
			md.Append("small", "1")
		}
		return &testservicev1.RefundResponse{Name: "refunds/1"}, grpc.SetHeader(ctx, md)
	}}
	g := serve(t, startKeeper(t), s, grpcguard.Config{ReplayHeader: []string{"big", "small"}})
	if _, told := g.refundOnce(t, "k"); told.err != nil {
		t.Fatal(told.err)
	}
	response, told := g.refundOnce(t, "k")
	if told.err != nil || response.GetName() != "refunds/1" {
		t.Fatalf("the replay is %v, %v; want the response", response, told.err)
	}
	if got := len(told.header["small"]); got != oncekeeper.MaxMetadataEntries || told.header["big"] != nil {
		t.Errorf("%d small headers and %d big ones are replayed, want %d and none", got, len(told.header["big"]), oncekeeper.MaxMetadataEntries)
	}
}

func TestAKeptResponseThatIsNoneOfTheMethodsIsNotGiven(t *testing.T) {
	for name, response := range map[string]*oncekeeper.Response{
		"another type":    {Body: []byte{}, ContentType: "type.googleapis.com/google.protobuf.StringValue", Resource: "refunds/1"},
		"no type":         {Body: []byte{}, Resource: "refunds/1"},
		"unreadable body": {Body: []byte{0xff}, ContentType: "type.googleapis.com/testservice.v1.RefundResponse", Resource: "refunds/1"},
	} {
		t.Run(name, func(t *testing.T) {
			k, s := startKeeper(t), &service{}
			g := serve(t, k, s, grpcguard.Config{})
			s.refund = func(ctx context.Context, _ *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
				a, ok := grpcguard.AttemptFrom(ctx)
				if !ok {
					t.Error("the handler has no attempt")
				}
				_, err := k.Complete(ctx, a.Key(), a.Token(), response)
				return &testservicev1.RefundResponse{}, err
			}
			_, told := g.refundOnce(t, "k")
			refusal(t, told.err, oncekeeper.ErrInProgress, refundOp, codes.Aborted) // it was settled otherwise
			_, told = g.refundOnce(t, "k")
			e := refusal(t, told.err, oncekeeper.ErrResponseNotKept, refundOp, codes.FailedPrecondition)
			if e.metadata["resource"] != "refunds/1" || s.runs() != 1 {
				t.Errorf("the refusal says %v after %d runs, want the resource after one", e.metadata, s.runs())
			}
		})
	}
}

func TestAKeptFailureComesBackWithItsDetails(t *testing.T) {
	detailed, err := status.New(codes.OutOfRange, "too much").WithDetails(wrapperspb.String("detail"), wrapperspb.Int64(7))
	if err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string]error{
		"a status": detailed.Err(),
		"wrapped":  fmt.Errorf("refunding: %w", detailed.Err()),
		"final":    oncekeeper.Final(detailed.Err()),
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{refund: func(context.Context, *testservicev1.RefundRequest) (*testservicev1.RefundResponse, error) {
				return nil, given
			}}
			g := serve(t, startKeeper(t), s, grpcguard.Config{})
			for n := range 3 {
				_, told := g.refundOnce(t, "k")
				if got := status.Convert(told.err).Proto(); !proto.Equal(got, detailed.Proto()) {
					t.Errorf("answer %d is %v, want %v", n, got, detailed.Proto())
				}
				if told.replayed() != (n > 0) {
					t.Errorf("answer %d is marked a replay: %t", n, told.replayed())
				}
			}
			if s.runs() != 1 {
				t.Errorf("the handler ran %d times", s.runs())
			}
		})
	}
}

func TestConcurrentCallersOfOneKeyRunItOnce(t *testing.T) {
	s := &service{}
	g := serve(t, startKeeper(t), s, grpcguard.Config{})
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for {
				_, told := g.refundOnce(t, "k")
				if told.err == nil {
					return
				}
				if status.Code(told.err) != codes.Aborted {
					t.Errorf("the answer is %v, want OK or ABORTED", told.err)
					return
				}
			}
		})
	}
	all.Wait()
	if s.runs() != 1 {
		t.Errorf("the handler ran %d times", s.runs())
	}
}
