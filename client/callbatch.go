package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// maxSettleBytes bounds the settlements that travel in one call, well below what a
// server takes in a message. One that is larger goes alone.
const maxSettleBytes = 1 << 20

// beginEach is BatchBegin for items that each have an answer or an error of their own:
// what gave no verdict is asked for again, under its call id, while the others keep
// what they were told. Up to MaxBatch, which can travel.
func (c *Client) beginEach(ctx context.Context, reqs []BeginRequest) []BeginResult {
	msgs := make([]*pb.BeginRequest, len(reqs))
	open := make([]int, len(reqs))
	for i, req := range reqs {
		msgs[i], open[i] = c.beginToProto(req), i
	}
	results := make([]BeginResult, len(reqs))
	_, err := c.call(ctx, callKind{name: "batch begin"}, func(ctx context.Context, opts ...grpc.CallOption) error {
		sent := c.clock.Monotonic()
		resp, err := c.service.BatchBegin(ctx, &pb.BatchBeginRequest{Requests: pickOf(msgs, open)}, opts...)
		if err != nil {
			return err
		}
		if len(resp.GetResults()) != len(open) {
			return wrongCount("batch begin", len(resp.GetResults()), len(open))
		}
		open, err = again(open, func(n, i int) error {
			results[i] = c.beginResult(resp.GetResults()[n], reqs[i].Key, sent)
			return results[i].Err
		})
		return err
	})
	if err == nil {
		return results
	}
	if lost, left := answerLost(err); lost {
		c.leaveBatch(ctx, pickOf(msgs, open), pickOf(reqs, open), left)
	}
	for _, i := range open {
		results[i] = BeginResult{Err: err}
	}
	return results
}

// again gives which of the items open are to be asked for again, and why; told says
// what the nth, which is item i, was told.
func again(open []int, told func(n, i int) error) (still []int, why error) {
	for n, i := range open {
		if err := told(n, i); err != nil && retryable(err) {
			still, why = append(still, i), err
		}
	}
	return still, why
}

func pickOf[T any](all []T, which []int) []T {
	picked := make([]T, len(which))
	for n, i := range which {
		picked[n] = all[i]
	}
	return picked
}

// settleEach settles all, whatever has become of ctx, for no longer than the settle
// time-out, and gives each one's error. What cannot be kept whole is kept as far as it
// can.
func (c *Client) settleEach(ctx context.Context, all []Settlement) []error {
	ctx = context.WithoutCancel(ctx)
	end := c.clock.Monotonic() + c.settleTimeout
	errs := make([]error, len(all))
	msgs := make([]*pb.Settlement, len(all))
	for i, s := range all {
		msgs[i] = settlementToProto(s)
	}
	parts := settleParts(msgs, func(i int) bool { return cannotBeSettled(all[i]) == nil })
	together(len(parts), func(n int) { c.settlePart(ctx, msgs, all, parts[n], end, errs) })
	var alone []int
	for i := range all {
		if msgs[i] == nil || tooMuch(errs[i]) {
			alone = append(alone, i)
		}
	}
	together(len(alone), func(n int) {
		i := alone[n]
		errs[i] = c.settleWhole(ctx, all[i], max(1, end-c.clock.Monotonic()))
	})
	return errs
}

// settleParts gives which messages travel together. What does not, by its size or by
// travels, is set to nil.
func settleParts(msgs []*pb.Settlement, travels func(i int) bool) (parts [][]int) {
	bytes := 0
	for i, m := range msgs {
		size := proto.Size(m)
		if size > maxSettleBytes || !travels(i) {
			msgs[i] = nil
			continue
		}
		last := len(parts) - 1
		if last < 0 || len(parts[last]) == MaxBatch || bytes+size > maxSettleBytes {
			parts, bytes, last = append(parts, nil), 0, last+1
		}
		parts[last], bytes = append(parts[last], i), bytes+size
	}
	return parts
}

// settlePart settles what part names in one call, but for what is to be said again.
func (c *Client) settlePart(ctx context.Context, msgs []*pb.Settlement, all []Settlement, part []int, end time.Duration, errs []error) {
	open := part
	_, err := c.call(ctx, callKind{name: "batch settle", essential: max(1, end-c.clock.Monotonic())}, func(ctx context.Context, opts ...grpc.CallOption) error {
		resp, err := c.service.BatchSettle(ctx, &pb.BatchSettleRequest{Settlements: pickOf(msgs, open)}, opts...)
		if err != nil {
			return err
		}
		if len(resp.GetResults()) != len(open) {
			return wrongCount("batch settle", len(resp.GetResults()), len(open))
		}
		open, err = again(open, func(n, i int) error {
			errs[i] = settleResult(resp.GetResults()[n], i, all[i].Key).Err
			return errs[i]
		})
		return err
	})
	for _, i := range open {
		if err != nil {
			errs[i] = err
		}
	}
}
