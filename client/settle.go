package client

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// Ended is how an attempt ended.
type Ended struct {
	// As is SettledComplete, with Response; or SettledRetryable (known to have
	// done nothing), SettledFinal (the failure is the answer) or SettledUnknown,
	// with Status.
	As       oncekeeper.Settlement
	Response *oncekeeper.Response
	Status   *oncekeeper.Status
}

// Settlement says how the attempt that Token names ended.
type Settlement struct {
	Key   oncekeeper.Key
	Token int64
	Ended
	// Retention is how long the record is kept from now; 0: as Begin asked.
	Retention time.Duration
	// NotRun goes with SettledRetryable alone: what was granted was not run, and does
	// not count as an attempt.
	NotRun bool
}

// Settle says how an attempt ended, retrying within ctx and WithSettleTimeout, and
// gives when the record expires. Saying the same again is no error; the lease may have run out,
// where nobody took over.
//
// Errors are oncekeeper.ErrFenced (a later attempt has the key: its outcome
// counts), ErrKeyNotFound, ErrAlreadySettled, ErrInvalidRequest,
// ErrUnauthenticated, ErrPermissionDenied, this package's ErrUnavailable, or
// ctx's cause.
func (c *Client) Settle(ctx context.Context, s Settlement) (oncekeeper.Instant, error) {
	return c.settle(ctx, s, c.settleTimeout)
}

func (c *Client) settle(ctx context.Context, s Settlement, limit time.Duration) (oncekeeper.Instant, error) {
	if err := cannotBeSettled(s); err != nil {
		return 0, err
	}
	if s.As == oncekeeper.SettledComplete {
		return c.complete(ctx, completeToProto(s), limit)
	}
	return c.fail(ctx, failToProto(s), limit)
}

// Complete is Settle for an attempt that ran.
func (c *Client) Complete(ctx context.Context, key oncekeeper.Key, token int64, r *oncekeeper.Response) (oncekeeper.Instant, error) {
	return c.Settle(ctx, Settlement{Key: key, Token: token, Ended: Ended{As: oncekeeper.SettledComplete, Response: r}})
}

// Fail is Settle for an attempt that failed: as SettledRetryable, SettledFinal
// or SettledUnknown.
func (c *Client) Fail(ctx context.Context, key oncekeeper.Key, token int64, as oncekeeper.Settlement, s *oncekeeper.Status) (oncekeeper.Instant, error) {
	return c.Settle(ctx, Settlement{Key: key, Token: token, Ended: Ended{As: as, Status: s}})
}

func (c *Client) complete(ctx context.Context, msg *pb.CompleteRequest, limit time.Duration) (oncekeeper.Instant, error) {
	var expires *timestamppb.Timestamp
	_, err := c.call(ctx, callKind{name: "complete", essential: limit}, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		expires, err = c.askComplete(ctx, msg, opts...)
		return err
	})
	return toldInstant(expires), err
}

func (c *Client) fail(ctx context.Context, msg *pb.FailRequest, limit time.Duration) (oncekeeper.Instant, error) {
	var expires *timestamppb.Timestamp
	_, err := c.call(ctx, callKind{name: "fail", essential: limit}, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
		expires, err = c.askFail(ctx, msg, opts...)
		return err
	})
	return toldInstant(expires), err
}

func completeToProto(s Settlement) *pb.CompleteRequest {
	return &pb.CompleteRequest{
		Key: wire.KeyToProto(s.Key), FencingToken: s.Token,
		Response: wire.ResponseToProto(s.Response), Retention: wire.OptionalDurationToProto(s.Retention),
	}
}

func failToProto(s Settlement) *pb.FailRequest {
	return &pb.FailRequest{
		Key: wire.KeyToProto(s.Key), FencingToken: s.Token, Disposition: wire.DispositionToProto(s.As),
		Status: wire.StatusToProto(s.Status), Retention: wire.OptionalDurationToProto(s.Retention), NotRun: s.NotRun,
	}
}

// settleAttempt settles what ran, whatever has become of ctx, for no longer than
// the settle time-out.
func (c *Client) settleAttempt(ctx context.Context, a *Attempt, end conclusion) error {
	return c.settleWhole(ctx, settlementOf(a, end), c.settleTimeout)
}

// settlementOf is how an attempt is settled that ended as end.
func settlementOf(a *Attempt, end conclusion) Settlement {
	resource := a.resourceSet()
	if end.Found {
		resource = "" // the receipt has its own
	}
	return Settlement{
		Key: a.key, Token: a.token, Ended: fit(end.ended, a.limit, resource), Retention: end.retention, NotRun: end.notRun,
	}
}

// settleWhole settles whatever has become of ctx, for no longer than limit. What
// cannot be kept whole is kept as far as it can.
func (c *Client) settleWhole(ctx context.Context, s Settlement, limit time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	end := c.clock.Monotonic() + limit
	_, err := c.settle(ctx, s, limit)
	if tooMuch(err) {
		s.Ended = least(s.Ended)
		_, err = c.settle(ctx, s, max(1, end-c.clock.Monotonic()))
	}
	return err
}

// giveBackTimeout bounds how long a caller that does not run its grant is kept.
const giveBackTimeout = 5 * time.Second

// giveBack settles a grant that will not be run, so that the next Begin need not
// wait for its lease to end. That it could not be is no error: it will end.
func (c *Client) giveBack(ctx context.Context, g *Grant) {
	err := c.settleWhole(ctx, notRun(g), min(giveBackTimeout, c.settleTimeout))
	if err != nil && !refused(err) {
		c.log.DebugContext(ctx, "a grant that was not run could not be given back", c.logKey(g.key), "token", g.Token, "error", err)
	}
}

func notRun(g *Grant) Settlement {
	return Settlement{Key: g.key, Token: g.Token, Ended: notRunEnding(), NotRun: true}
}

// fit makes e what the service keeps: a body over limit (0: not told) is omitted,
// resource is left beside it, and a status has a code and no more text than fits.
func fit(e Ended, limit int64, resource string) Ended {
	if e.As == oncekeeper.SettledComplete {
		r := oncekeeper.Response{}
		if e.Response != nil {
			r = *e.Response
		}
		if r.Resource == "" {
			r.Resource = resource
		}
		fitted := Ended{As: e.As, Response: &r}
		if !travels(r) {
			return least(fitted)
		}
		if limit > 0 && int64(len(r.Body)) > limit {
			r.Body, r.Omitted = nil, true
		}
		return fitted
	}
	st := oncekeeper.Status{Code: int32(codes.Unknown)}
	if e.Status != nil {
		st = *e.Status
	}
	if st.Code <= 0 || st.Code > int32(codes.Unauthenticated) {
		st.Code = int32(codes.Unknown)
	}
	st.Message = cutText(st.Message, oncekeeper.MaxStatusMessageBytes)
	if len(st.Details) > oncekeeper.MaxStatusDetails || (limit > 0 && detailsSize(st.Details) > limit) {
		st.Details = nil
	}
	if e.As != oncekeeper.SettledRetryable && e.As != oncekeeper.SettledFinal {
		e.As = oncekeeper.SettledUnknown
	}
	return Ended{As: e.As, Status: &st}
}

// detailsSize counts details as the service does: each as a field of the message
// that carries it, so that many small ones are no way around the limit.
func detailsSize(details [][]byte) int64 {
	size := 0
	for _, d := range details {
		size += protowire.SizeTag(1) + protowire.SizeBytes(len(d))
	}
	return int64(size)
}

// travels says whether protobuf carries r: its text is UTF-8.
func travels(r oncekeeper.Response) bool {
	return utf8.ValidString(r.ContentType) && utf8.ValidString(r.Resource) &&
		!slices.ContainsFunc(r.Metadata, func(m oncekeeper.MetadataEntry) bool { return !utf8.ValidString(m.Name) })
}

// tooMuch says whether the service, or its transport, will never take so much.
func tooMuch(err error) bool {
	return errors.Is(err, oncekeeper.ErrInvalidRequest) ||
		(status.Code(err) == codes.ResourceExhausted && !errors.Is(err, oncekeeper.ErrOverloaded))
}

// least gives what says no more than how it ended, and where to look.
func least(e Ended) Ended {
	if e.As == oncekeeper.SettledComplete {
		r := &oncekeeper.Response{Omitted: true, StatusCode: e.Response.StatusCode}
		if utf8.ValidString(e.Response.Resource) && len(e.Response.Resource) <= oncekeeper.MaxResourceBytes {
			r.Resource = e.Response.Resource
		}
		return Ended{As: e.As, Response: r}
	}
	return Ended{As: e.As, Status: &oncekeeper.Status{Code: e.Status.Code}}
}

func toldInstant(p *timestamppb.Timestamp) oncekeeper.Instant {
	i, err := wire.InstantFromProto(p)
	if err != nil {
		return 0
	}
	return i
}
