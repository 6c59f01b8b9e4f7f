package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// BeginRequest asks for the right to run the operation that Key names.
type BeginRequest struct {
	Key oncekeeper.Key
	// Fingerprint is a digest of the request, up to oncekeeper.MaxFingerprintBytes,
	// and FingerprintScheme how it was made, up to oncekeeper.MaxSchemeBytes.
	Fingerprint       []byte
	FingerprintScheme string
	// Lease is how long the attempt may go unheard of, and Retention how long the
	// record is kept once settled; 0: the policy's defaults. Both are clamped to
	// the policy's maximum.
	Lease, Retention time.Duration
	// Wait is how long the server may hold the call while another attempt runs; 0:
	// it answers at once. It also does where too many calls of this client are held
	// (WithMaxWaits).
	Wait time.Duration
	// Hold keeps the key, after an attempt with no known outcome, until someone
	// resolves it, also where the policy would not.
	Hold bool
	// MaxAttempts before the key is given up, within policy; 0: the policy's.
	MaxAttempts int32
	// TraceParent is the W3C traceparent of the span that asks, up to
	// oncekeeper.MaxTraceParentBytes: it is kept with the attempt, and given with its
	// outcome. What is none is kept as none. Run and Do set it by WithTracer.
	TraceParent string
}

// BeginAnswer has exactly one field set. An answer that this version does not
// know reads as InProgress.
type BeginAnswer struct {
	Grant *Grant
	// Outcome has neither Response nor Status where it is of a kind that this
	// version does not know.
	Outcome    *oncekeeper.Outcome
	InProgress *InProgress
	Unresolved *Unresolved
}

// Grant is the right to run one attempt.
type Grant struct {
	// Token is the fencing token: at least 1, below 2^53, and greater than that of
	// any earlier attempt.
	Token int64
	// Number is 1 for the first attempt.
	Number int32
	// Takeover: some earlier attempt ended with no known outcome, and its effect
	// may have happened.
	Takeover bool
	// Checkpoint is what an earlier attempt saved.
	Checkpoint []byte
	// MaxResponseBytes is the largest Response.Body that can be kept; 0: not told.
	MaxResponseBytes int64
	// PreviousTraceParent is what the attempt before this one was begun with.
	PreviousTraceParent string
	// Lease is the time left when it was granted.
	Lease time.Duration
	// TrustedUntil is when the lease stops being trusted, as a reading of the
	// client's clock.Monotonic: counted from the sending of the call that was
	// answered plus how long the server held it, less a margin of a tenth of the
	// lease, at least 50 ms (or half the lease) and at most 1 s.
	TrustedUntil time.Duration

	key  oncekeeper.Key
	sent time.Duration
}

// InProgress: another attempt is running.
type InProgress struct {
	// RetryDelay is when to ask again.
	RetryDelay time.Duration
	// LeaseEnd is when the running attempt's lease ends unless it is renewed, on
	// the store's clock.
	LeaseEnd oncekeeper.Instant
	Number   int32
	// TraceParent is what the running attempt was begun with.
	TraceParent string
}

// Unresolved: an attempt ended with no known outcome, and the key is held.
type Unresolved struct {
	// Token is the last attempt's. Whoever can prove what happened may settle with
	// it.
	Token      int64
	Number     int32
	Since      oncekeeper.Instant
	Checkpoint []byte
	// TraceParent is what the last attempt was begun with.
	TraceParent string
}

// Begin asks once, retrying within ctx under one call id, so that an answer that
// was lost is asked for again rather than waited out. Whoever is granted settles:
// with Settle, and as NotRun where it will not be run. A
// grant that comes after ctx has ended is given back; one whose answer was lost is
// asked for once more and given back, for some seconds after Begin has returned.
//
// Errors are oncekeeper.ErrFingerprintMismatch, ErrInvalidRequest,
// ErrUnauthenticated, ErrPermissionDenied, ErrAlreadySettled (begin once more),
// this package's ErrUnavailable, or ctx's cause.
func (c *Client) Begin(ctx context.Context, req BeginRequest) (BeginAnswer, error) {
	release := func() {}
	if req.Wait > 0 {
		var ok bool
		if release, ok = c.openWait(); !ok {
			req.Wait = 0
		}
	}
	answer, err := c.begin(ctx, req, release)
	if err == nil && answer.Grant != nil && ctx.Err() != nil {
		c.giveBack(ctx, answer.Grant)
		return BeginAnswer{}, ended(ctx, nil)
	}
	return answer, err
}

// openWait takes room for a call that the server may hold.
func (c *Client) openWait() (release func(), ok bool) { return place(c.waits) }

// place takes one of a bounded number of places.
func place(places chan struct{}) (release func(), ok bool) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
		return func() {}, false
	}
}

// begin asks once. It gives up the place of a call that may be held, by release,
// when nothing of the call is left.
func (c *Client) begin(ctx context.Context, req BeginRequest, release func()) (BeginAnswer, error) {
	kind := callKind{name: "begin", hold: req.Wait}
	if req.Wait == 0 {
		// The server lets go of a call it holds as soon as its caller leaves.
		kind.linger = lingerBegin
	}
	if err := cannotTravel(req.Key, req.FingerprintScheme); err != nil {
		release()
		return BeginAnswer{}, err
	}
	msg := c.beginToProto(req)
	var resp *pb.BeginResponse
	sent, err := c.call(ctx, kind, func(try context.Context, opts ...grpc.CallOption) (err error) {
		resp, err = c.askBegin(ctx, try, msg, opts...)
		return err
	})
	lost, left := answerLost(err)
	if lost && req.Wait == 0 {
		release, lost = place(c.takeBacks)
	}
	if lost {
		detached(ctx, release, func(ctx context.Context) { c.takeBack(ctx, msg, req.Key, left) })
	} else {
		release()
	}
	if err != nil {
		return BeginAnswer{}, err
	}
	return c.answerFromProto(resp, req.Key, sent)
}

// beginToProto gives a message that is none of the caller's: it may be sent, or be
// asked for again, once that has left.
func (c *Client) beginToProto(req BeginRequest) *pb.BeginRequest {
	p := &pb.BeginRequest{
		Key:               wire.KeyToProto(req.Key),
		Fingerprint:       bytes.Clone(req.Fingerprint),
		FingerprintScheme: req.FingerprintScheme,
		CallId:            newCallID(),
		Lease:             wire.OptionalDurationToProto(req.Lease),
		Retention:         wire.OptionalDurationToProto(req.Retention),
		Wait:              wire.OptionalDurationToProto(req.Wait),
		Holder:            c.holder,
		MaxAttempts:       req.MaxAttempts,
		TraceParent:       req.TraceParent,
	}
	if req.Hold {
		p.OnLeaseExpiry = wire.HoldToProto(true)
	}
	return p
}

// newCallID gives 128 random bits in hexadecimal.
func newCallID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(id[:])
}

func (c *Client) answerFromProto(p *pb.BeginResponse, key oncekeeper.Key, sent time.Duration) (BeginAnswer, error) {
	switch r := p.GetResult().(type) {
	case *pb.BeginResponse_Grant:
		grant, err := c.grantFromProto(r.Grant, key, sent)
		return BeginAnswer{Grant: grant}, err
	case *pb.BeginResponse_Outcome:
		return BeginAnswer{Outcome: outcomeFromProto(r.Outcome)}, nil
	case *pb.BeginResponse_Unresolved:
		since, _ := wire.InstantFromProto(r.Unresolved.GetSince())
		return BeginAnswer{Unresolved: &Unresolved{
			Token: r.Unresolved.GetFencingToken(), Number: r.Unresolved.GetAttemptNumber(),
			Since: since, Checkpoint: r.Unresolved.GetCheckpoint(), TraceParent: r.Unresolved.GetTraceParent(),
		}}, nil
	case *pb.BeginResponse_InProgress:
		end, _ := wire.InstantFromProto(r.InProgress.GetLeaseExpireTime())
		return BeginAnswer{InProgress: &InProgress{
			RetryDelay: toldDuration(r.InProgress.GetRetryDelay()), LeaseEnd: end, Number: r.InProgress.GetAttemptNumber(),
			TraceParent: r.InProgress.GetTraceParent(),
		}}, nil
	default:
		return BeginAnswer{InProgress: &InProgress{}}, nil
	}
}

func (c *Client) grantFromProto(p *pb.Grant, key oncekeeper.Key, sent time.Duration) (*Grant, error) {
	if p.GetFencingToken() < 1 {
		return nil, fmt.Errorf("begin: the service granted with token %d, which fences nothing", p.GetFencingToken())
	}
	// Time that the server says it held the call cannot be more than has passed.
	waited := min(toldDuration(p.GetWaited()), c.clock.Monotonic()-sent)
	g := &Grant{
		Token:               p.GetFencingToken(),
		Number:              p.GetAttemptNumber(),
		Takeover:            p.GetTakeover(),
		Checkpoint:          p.GetCheckpoint(),
		MaxResponseBytes:    p.GetMaxResponseBytes(),
		PreviousTraceParent: p.GetPreviousTraceParent(),
		Lease:               toldDuration(p.GetLease()),
		key:                 key,
		sent:                sent + waited,
	}
	g.TrustedUntil = trustedUntil(g.sent, g.Lease)
	return g, nil
}

// outcomeFromProto gives an outcome, if an empty one. A key that was given up has
// a status also where no attempt left one.
func outcomeFromProto(p *pb.Outcome) *oncekeeper.Outcome {
	o := wire.OutcomeFromProto(p)
	if o == nil {
		o = &oncekeeper.Outcome{}
	}
	if o.Origin == oncekeeper.OriginExhausted && o.Response == nil && o.Status == nil {
		o.Status = &oncekeeper.Status{Code: int32(codes.Unknown), Message: "its attempts are used up"}
	}
	return o
}

// toldDuration reads a duration that the server told; a malformed or negative
// one is none.
func toldDuration(p *durationpb.Duration) time.Duration {
	d, err := wire.DurationFromProto(p)
	if err != nil || d < 0 {
		return 0
	}
	return d
}
