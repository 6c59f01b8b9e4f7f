package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

const (
	// lingerBegin is how long a Begin is heard out once its caller has gone, and how
	// long an answer that was lost is asked for again.
	lingerBegin = time.Second
	// maxTakeBacks bounds how many lost answers a client asks for at once, beside
	// those of held calls, which keep their place among WithMaxWaits.
	maxTakeBacks = 32
)

// answerLost says whether the call that gave err may have been granted without
// anyone's knowing: a try was sent and the service gave no verdict on it. left:
// its caller left; otherwise it was given up.
func answerLost(err error) (lost, left bool) {
	var ended *endedError
	if errors.As(err, &ended) {
		return ended.lost, true
	}
	var failed *callError
	return errors.As(err, &failed) && failed.lost, false
}

// detached runs f in a goroutine that outlives the call which owns it by no more
// than what bounds f. It keeps the place that release gives up.
func detached(ctx context.Context, release func(), f func(ctx context.Context)) {
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer release()
		f(ctx)
	}()
}

// takeBack gives back what a Begin whose answer was lost may have been granted:
// it is asked once more under its call id, not to be held, and a grant is settled
// as not run. Otherwise the key is stuck until the lease ends, and where it is to
// be held then, until someone resolves it, though nothing ran.
//
// To ask makes an attempt where none was. For a caller that left, that is what
// closes the gap: should its first call arrive late, it meets a call id that is
// over. A call that was given up in an outage has mostly not arrived at all, and
// is asked again only where the key is running.
func (c *Client) takeBack(ctx context.Context, msg *pb.BeginRequest, key oncekeeper.Key, left bool) {
	msg = proto.CloneOf(msg) // the call that was left may still be sending it
	msg.Wait = nil
	if !left && !c.isRunning(ctx, msg.GetKey()) {
		return
	}
	var resp *pb.BeginResponse
	sent := c.clock.Monotonic()
	err := c.try(ctx, callKind{name: "begin"}, lingerBegin, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.Begin(ctx, msg, append(opts, grpc.WaitForReady(true))...)
		return err
	})
	if err != nil {
		c.log.DebugContext(ctx, "what a call that was left may have been granted could not be asked for", c.logKey(key), "error", err)
		return
	}
	if answer, err := c.answerFromProto(resp, key, sent); err == nil && answer.Grant != nil {
		c.giveBack(ctx, answer.Grant)
	}
}

func (c *Client) isRunning(ctx context.Context, key *pb.Key) bool {
	var resp *pb.GetResponse
	err := c.try(ctx, callKind{name: "get"}, lingerBegin, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.Get(ctx, &pb.GetRequest{Key: key}, append(opts, grpc.WaitForReady(true))...)
		return err
	})
	return err == nil && wire.StateFromProto(resp.GetRecord().GetState()) == oncekeeper.StatePending
}

// areRunning gives which of msgs ask for a key that is running, as far as that is
// told in the time that there is to give them back.
func (c *Client) areRunning(ctx context.Context, msgs []*pb.BeginRequest) []int {
	ctx, cancel := clock.WithTimeout(ctx, c.clock, giveBackTimeout, errNoAnswer)
	defer cancel()
	are := make([]bool, len(msgs))
	together(len(msgs), func(n int) { are[n] = ctx.Err() == nil && c.isRunning(ctx, msgs[n].GetKey()) })
	var running []int
	for n, is := range are {
		if is {
			running = append(running, n)
		}
	}
	return running
}

// takeBackBatch is takeBack for a batch.
func (c *Client) takeBackBatch(ctx context.Context, msgs []*pb.BeginRequest, keys []oncekeeper.Key, left bool) {
	if !left {
		running := c.areRunning(ctx, msgs)
		msgs, keys = pickOf(msgs, running), pickOf(keys, running)
	}
	if len(msgs) == 0 {
		return
	}
	msg := &pb.BatchBeginRequest{Requests: msgs}
	var resp *pb.BatchBeginResponse
	sent := c.clock.Monotonic()
	err := c.try(ctx, callKind{name: "batch begin"}, lingerBegin, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.BatchBegin(ctx, msg, append(opts, grpc.WaitForReady(true))...)
		return err
	})
	if err != nil || len(resp.GetResults()) != len(keys) {
		return
	}
	settle := &pb.BatchSettleRequest{}
	for i, r := range resp.GetResults() {
		if b := c.beginResult(r, keys[i], sent); b.Err == nil && b.Answer.Grant != nil {
			settle.Settlements = append(settle.Settlements, settlementToProto(notRun(b.Answer.Grant)))
		}
	}
	if len(settle.GetSettlements()) == 0 {
		return
	}
	_, err = c.call(ctx, callKind{name: "batch settle", essential: min(giveBackTimeout, c.settleTimeout)}, func(ctx context.Context, opts ...grpc.CallOption) error {
		_, err := c.service.BatchSettle(ctx, settle, opts...)
		return err
	})
	if err != nil {
		c.log.DebugContext(ctx, "grants of a batch that was left could not be given back", "error", err)
	}
}
