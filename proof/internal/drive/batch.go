package drive

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/proof/internal/history"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func instant(p *timestamppb.Timestamp) oncekeeper.Instant {
	if p == nil {
		return 0
	}
	return oncekeeper.InstantOf(p.AsTime())
}

// batchBegin begins several keys in one call; each is an operation of its own.
func (c *client) batchBegin(ctx context.Context, keys []*key) {
	req := &pb.BatchBeginRequest{}
	var ops []*history.Operation
	for _, k := range keys {
		o := &history.Operation{Key: k.key.ID, Begin: c.newBegin(k)}
		ops = append(ops, o)
		req.Requests = append(req.Requests, beginRequest(k, o))
	}
	c.exchange(ctx, ops, func(ctx context.Context, s server) []reply {
		replies := make([]reply, len(ops))
		res, err := s.keeper.BatchBegin(ctx, req)
		for i := range replies {
			switch {
			case err != nil:
				replies[i].err = wire.FromError(err, nil)
			case res.GetResults()[i].GetError() != nil:
				replies[i].err = wire.BatchErrorFromProto(res.GetResults()[i].GetError(), ops[i].Begin.Key.Operation)
			default:
				replies[i].answer = begun(res.GetResults()[i].GetResponse())
			}
		}
		return replies
	})
	for i, o := range ops {
		c.learn(keys[i], o)
	}
}

// batchSettle settles several keys in one call.
func (c *client) batchSettle(ctx context.Context, keys []*key) {
	req := &pb.BatchSettleRequest{}
	var ops []*history.Operation
	var of []*key
	for _, k := range keys {
		token, granted := recall(k, &k.tokens, c.random)
		if !granted {
			continue
		}
		o := c.settle(k, token)
		o.Key = k.key.ID
		ops, of = append(ops, &o), append(of, k)
		one := &pb.Settlement{}
		if o.Settle.As == oncekeeper.SettledComplete {
			one.Settlement = &pb.Settlement_Complete{Complete: completeRequest(k, o.Settle)}
		} else {
			one.Settlement = &pb.Settlement_Fail{Fail: failRequest(k, o.Settle)}
		}
		req.Settlements = append(req.Settlements, one)
	}
	if len(ops) == 0 {
		return
	}
	c.exchange(ctx, ops, func(ctx context.Context, s server) []reply {
		replies := make([]reply, len(ops))
		res, err := s.keeper.BatchSettle(ctx, req)
		for i := range replies {
			switch {
			case err != nil:
				replies[i].err = wire.FromError(err, nil)
			case res.GetResults()[i].GetError() != nil:
				replies[i].err = wire.BatchErrorFromProto(res.GetResults()[i].GetError(), of[i].key.Operation)
			default:
				replies[i].answer = &history.Answer{Verdict: lifecycle.Settled, Expires: instant(res.GetResults()[i].GetExpireTime())}
			}
		}
		return replies
	})
	for i, o := range ops {
		c.learn(of[i], o)
	}
}
