package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/coalesce"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// WithCoalescing has Begins that wait share one BatchBegin, and settlements one
// BatchSettle. No call is put off to gather others: while two of a kind are under way
// others of it gather, and leave together when an answer came, or each alone where
// none comes in a second. So a lone caller is no slower, and many share few calls; see
// docs/performance.md for how many more they make.
//
// Deadlines, cancellation, retries and errors stay each caller's own: one that
// leaves ends nobody else's call, and what one asks that is invalid is refused to it
// alone. A call that the server may hold (BeginRequest.Wait), a large one, and one
// whose answer does not fit beside the others goes alone.
//
// A shared call's context has none of the callers' values: an interceptor or a
// stats handler of the connection sees it as nobody's, and in no caller's trace.
// Outgoing metadata travels: callers share a call only where theirs is equal. So
// credentials of the connection (credentials.PerRPCCredentials) that read a context's
// values must not be used with it.
func WithCoalescing() Option {
	return func(c *Client) { c.coalesces = true }
}

// coalesce makes the Sharers, once the options are read.
func (c *Client) coalesce() {
	c.begins = coalesce.New(c.beginTogether, c.clock)
	c.settlements = coalesce.New(c.settleTogether, c.clock)
}

// asked is one caller's part of a shared call.
type asked[M proto.Message] struct {
	msg M
	key *pb.Key
	// metadata travels with the call; whoever shares it has the same.
	metadata metadata.MD
}

type (
	sharedBegins      = coalesce.Sharer[asked[*pb.BeginRequest], *pb.BeginResponse]
	sharedSettlements = coalesce.Sharer[asked[*pb.Settlement], *timestamppb.Timestamp]
)

// askBegin is one try of a Begin, in a call that it may share. It waits for its turn
// for no longer than caller does.
func (c *Client) askBegin(caller, ctx context.Context, msg *pb.BeginRequest, opts ...grpc.CallOption) (*pb.BeginResponse, error) {
	alone := func() (*pb.BeginResponse, error) { return c.service.Begin(ctx, msg, opts...) }
	if c.begins == nil || msg.GetWait() != nil {
		return alone()
	}
	return share(c.begins, caller, ctx, itemOf(ctx, msg, msg.GetKey()), alone)
}

// askComplete is one try of a Complete, in a call that it may share.
func (c *Client) askComplete(ctx context.Context, msg *pb.CompleteRequest, opts ...grpc.CallOption) (*timestamppb.Timestamp, error) {
	alone := func() (*timestamppb.Timestamp, error) {
		resp, err := c.service.Complete(ctx, msg, opts...)
		return resp.GetExpireTime(), err
	}
	if c.settlements == nil {
		return alone()
	}
	item := itemOf(ctx, &pb.Settlement{Settlement: &pb.Settlement_Complete{Complete: msg}}, msg.GetKey())
	return share(c.settlements, ctx, ctx, ownItem(item), alone)
}

// askFail is one try of a Fail, in a call that it may share.
func (c *Client) askFail(ctx context.Context, msg *pb.FailRequest, opts ...grpc.CallOption) (*timestamppb.Timestamp, error) {
	alone := func() (*timestamppb.Timestamp, error) {
		resp, err := c.service.Fail(ctx, msg, opts...)
		return resp.GetExpireTime(), err
	}
	if c.settlements == nil {
		return alone()
	}
	item := itemOf(ctx, &pb.Settlement{Settlement: &pb.Settlement_Fail{Fail: msg}}, msg.GetKey())
	return share(c.settlements, ctx, ctx, ownItem(item), alone)
}

// ownItem gives item a message that is none of its caller's, who may use the body's
// memory for something else once it has left. A Begin's is its own from the start.
func ownItem(item coalesce.Item[asked[*pb.Settlement]]) coalesce.Item[asked[*pb.Settlement]] {
	if item.Bytes <= coalesce.MaxItemBytes { // otherwise it goes alone
		item.Ask.msg = proto.CloneOf(item.Ask.msg)
	}
	return item
}

// share asks, and gives the end of ctx as gRPC does.
func share[Q, A any](with *coalesce.Sharer[Q, A], caller, ctx context.Context, item coalesce.Item[Q], alone func() (A, error)) (A, error) {
	answer, err := with.Ask(caller, ctx, item, alone)
	if err != nil && errors.Is(err, ctx.Err()) {
		err = status.FromContextError(err).Err()
	}
	return answer, err
}

func itemOf[M proto.Message](ctx context.Context, msg M, key *pb.Key) coalesce.Item[asked[M]] {
	md, _ := metadata.FromOutgoingContext(ctx)
	return coalesce.Item[asked[M]]{
		Ask: asked[M]{msg: msg, key: key, metadata: md},
		Key: wire.KeyFromProto(key), With: textOf(md), Bytes: proto.Size(msg),
	}
}

// textOf is equal for equal metadata, and for no other.
func textOf(md metadata.MD) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(md)) {
		for _, value := range md[name] {
			b.WriteString(strconv.Quote(name))
			b.WriteString(strconv.Quote(value))
		}
	}
	return b.String()
}

func (c *Client) beginTogether(ctx context.Context, all []asked[*pb.BeginRequest]) []coalesce.Answer[*pb.BeginResponse] {
	msg := &pb.BatchBeginRequest{Requests: messagesOf(all)}
	var resp *pb.BatchBeginResponse
	err := c.tryTogether(ctx, "batch begin", all[0].metadata, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.BatchBegin(ctx, msg, opts...)
		return err
	})
	return shareOut(all, resp.GetResults(), err, func(r *pb.BatchBeginResult) (*pb.BeginResponse, *pb.BatchError) {
		return r.GetResponse(), r.GetError()
	})
}

func (c *Client) settleTogether(ctx context.Context, all []asked[*pb.Settlement]) []coalesce.Answer[*timestamppb.Timestamp] {
	msg := &pb.BatchSettleRequest{Settlements: messagesOf(all)}
	var resp *pb.BatchSettleResponse
	err := c.tryTogether(ctx, "batch settle", all[0].metadata, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.service.BatchSettle(ctx, msg, opts...)
		return err
	})
	return shareOut(all, resp.GetResults(), err, func(r *pb.BatchSettleResult) (*timestamppb.Timestamp, *pb.BatchError) {
		return r.GetExpireTime(), r.GetError()
	})
}

func messagesOf[M proto.Message](all []asked[M]) []M {
	msgs := make([]M, len(all))
	for i, a := range all {
		msgs[i] = a.msg
	}
	return msgs
}

func (c *Client) tryTogether(ctx context.Context, name string, md metadata.MD, f rpc) error {
	if len(md) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	return c.try(ctx, callKind{name: name}, c.callTimeout, f)
}

// shareOut gives each caller its own result of a shared call, which ended with err.
// part gives a result's value or error.
func shareOut[M proto.Message, R, A any](all []asked[M], results []R, err error, part func(R) (*A, *pb.BatchError)) []coalesce.Answer[*A] {
	answers := make([]coalesce.Answer[*A], len(all))
	whole := err == nil && len(results) == len(all)
	for i := range answers {
		if !whole {
			answers[i] = coalesce.Answer[*A]{Err: err, Alone: !everyones(err)}
			continue
		}
		value, refused := part(results[i])
		if refused == nil {
			// A result of neither kind is of a later version, and is told alone.
			answers[i] = coalesce.Answer[*A]{Value: value, Alone: value == nil}
			continue
		}
		err := wire.BatchErrorFromProto(refused, all[i].key.GetOperation())
		answers[i] = coalesce.Answer[*A]{Err: err, Alone: isFuller(err)}
	}
	return answers
}

// everyones says whether an error of a shared call is that of each who shared it:
// nobody was answered. Any other may be one caller's doing, and each asks alone:
// under its own call id, or to settle alike, so that to ask twice is to ask once.
func everyones(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unauthenticated:
		return true
	default:
		return errors.Is(err, oncekeeper.ErrOverloaded)
	}
}

// isFuller says whether who asks alone is told more than who shared a call: the
// answer that did not fit, or which field is invalid.
func isFuller(err error) bool {
	return errors.Is(err, oncekeeper.ErrAskAlone) || errors.Is(err, oncekeeper.ErrInvalidRequest)
}
