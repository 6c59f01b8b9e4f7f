package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// MaxBatch is how many items one batch may have.
const MaxBatch = 256

// BeginResult is one item's answer, or the error that Begin would give for it;
// oncekeeper.ErrAskAlone where the answer is too large to travel in a batch.
type BeginResult struct {
	Answer BeginAnswer
	Err    error
}

// BatchBegin is many Begins in one round trip: 1 to MaxBatch, each key once, none
// with Wait; independent, not atomic. It gives one result for each request, in
// order. The call is retried whole, under the same call ids; an item's own error
// is not retried. What was granted in an answer that was lost is given back. The error
// is the whole call's, as Begin's.
func (c *Client) BatchBegin(ctx context.Context, reqs []BeginRequest) ([]BeginResult, error) {
	msg := &pb.BatchBeginRequest{}
	for _, req := range reqs {
		if err := cannotTravel(req.Key, req.FingerprintScheme); err != nil {
			return nil, err
		}
		msg.Requests = append(msg.Requests, c.beginToProto(req))
	}
	var resp *pb.BatchBeginResponse
	sent, err := c.call(ctx, callKind{name: "batch begin"}, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.BatchBegin(ctx, msg, opts...)
		return err
	})
	if lost, left := answerLost(err); lost {
		c.leaveBatch(ctx, msg.Requests, reqs, left)
	}
	if err != nil {
		return nil, err
	}
	if len(resp.GetResults()) != len(reqs) {
		return nil, wrongCount("batch begin", len(resp.GetResults()), len(reqs))
	}
	results := make([]BeginResult, len(reqs))
	for i, r := range resp.GetResults() {
		results[i] = c.beginResult(r, reqs[i].Key, sent)
	}
	return results, nil
}

func (c *Client) leaveBatch(ctx context.Context, msgs []*pb.BeginRequest, reqs []BeginRequest, left bool) {
	release, ok := place(c.takeBacks)
	if !ok {
		return
	}
	keys := make([]oncekeeper.Key, len(reqs))
	for i, req := range reqs {
		keys[i] = req.Key
	}
	detached(ctx, release, func(ctx context.Context) { c.takeBackBatch(ctx, msgs, keys, left) })
}

func (c *Client) beginResult(p *pb.BatchBeginResult, key oncekeeper.Key, sent time.Duration) BeginResult {
	if r, ok := p.GetResult().(*pb.BatchBeginResult_Error); ok {
		return BeginResult{Err: wire.BatchErrorFromProto(r.Error, key.Operation)}
	}
	answer, err := c.answerFromProto(p.GetResponse(), key, sent)
	return BeginResult{Answer: answer, Err: err}
}

// SettleResult is one item's expiry, or the error that Settle would give for it.
type SettleResult struct {
	Expires oncekeeper.Instant
	Err     error
}

// BatchSettle is many Settles in one round trip: 1 to MaxBatch, each key once;
// independent, not atomic. It gives one result for each settlement, in order. The
// call is retried whole; an item's own error is not retried. The error is the
// whole call's, as Settle's.
func (c *Client) BatchSettle(ctx context.Context, settlements []Settlement) ([]SettleResult, error) {
	msg := &pb.BatchSettleRequest{}
	for _, s := range settlements {
		if err := cannotBeSettled(s); err != nil {
			return nil, err
		}
		msg.Settlements = append(msg.Settlements, settlementToProto(s))
	}
	var resp *pb.BatchSettleResponse
	_, err := c.call(ctx, callKind{name: "batch settle", essential: c.settleTimeout}, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.BatchSettle(ctx, msg, opts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(resp.GetResults()) != len(settlements) {
		return nil, wrongCount("batch settle", len(resp.GetResults()), len(settlements))
	}
	results := make([]SettleResult, len(settlements))
	for i, r := range resp.GetResults() {
		results[i] = settleResult(r, i, settlements[i].Key)
	}
	return results, nil
}

// settleResult reads what item i of a batch was told.
func settleResult(p *pb.BatchSettleResult, i int, key oncekeeper.Key) SettleResult {
	switch r := p.GetResult().(type) {
	case *pb.BatchSettleResult_ExpireTime:
		return SettleResult{Expires: toldInstant(r.ExpireTime)}
	case *pb.BatchSettleResult_Error:
		return SettleResult{Err: wire.BatchErrorFromProto(r.Error, key.Operation)}
	default:
		return SettleResult{Err: fmt.Errorf("batch settle: item %d has no result that this version knows", i)}
	}
}

func settlementToProto(s Settlement) *pb.Settlement {
	if s.As == oncekeeper.SettledComplete {
		return &pb.Settlement{Settlement: &pb.Settlement_Complete{Complete: completeToProto(s)}}
	}
	return &pb.Settlement{Settlement: &pb.Settlement_Fail{Fail: failToProto(s)}}
}

func wrongCount(call string, got, want int) error {
	return fmt.Errorf("%s: the service gave %d results for %d items", call, got, want)
}
