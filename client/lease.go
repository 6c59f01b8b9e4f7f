package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// trustedUntil gives how long a lease told in answer to a call sent at sent is
// trusted. The margin pays for a store's clock that runs faster than this one,
// and for what the function does between its last look at its context and the
// effect.
func trustedUntil(sent, length time.Duration) time.Duration {
	margin := min(max(length/10, 50*time.Millisecond), time.Second, length/2)
	return sent + length - margin
}

// lease is how long the attempt's holder may trust that nobody took over. It is
// counted from when a call was sent, so that no delay of its answer adds to it.
type lease struct {
	clock clock.Clock

	mu           sync.Mutex
	sent, length time.Duration
}

func newLease(k clock.Clock, g *Grant) *lease {
	return &lease{clock: k, sent: g.sent, length: g.Lease}
}

// extend takes what the answer to a Renew sent at sent told. It never shortens.
func (l *lease) extend(sent, length time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if trustedUntil(sent, length) > trustedUntil(l.sent, l.length) {
		l.sent, l.length = sent, length
	}
}

// left gives how long the lease is still trusted, and of what length it is.
func (l *lease) left() (left, length time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return trustedUntil(l.sent, l.length) - l.clock.Monotonic(), l.length
}

// renewIn gives how long until it is time to renew: at a third of the lease.
func (l *lease) renewIn() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent + l.length/3 - l.clock.Monotonic()
}

// RenewRequest extends the lease of the attempt that Token names.
type RenewRequest struct {
	Key   oncekeeper.Key
	Token int64
	// Lease from now; 0: as granted. It never shortens the lease.
	Lease time.Duration
	// Checkpoint replaces the saved one unless nil; empty clears it. Up to
	// oncekeeper.MaxCheckpointBytes.
	Checkpoint []byte
}

// Renewal is a lease that was extended.
type Renewal struct {
	Lease time.Duration
	// TrustedUntil: see Grant.TrustedUntil.
	TrustedUntil time.Duration

	sent time.Duration
}

// Renew extends a lease, retrying within ctx and WithSettleTimeout. Errors are oncekeeper.ErrFenced,
// ErrKeyNotFound and ErrAlreadySettled, after which the attempt is another's or
// over; ErrInvalidRequest, ErrUnauthenticated, ErrPermissionDenied, this
// package's ErrUnavailable, or ctx's cause.
func (c *Client) Renew(ctx context.Context, req RenewRequest) (Renewal, error) {
	return c.renew(ctx, callKind{name: "renew", essential: c.settleTimeout}, req)
}

func (c *Client) renew(ctx context.Context, kind callKind, req RenewRequest) (Renewal, error) {
	if err := cannotTravel(req.Key, ""); err != nil {
		return Renewal{}, err
	}
	var resp pb.RenewResponse
	sent, err := c.call(ctx, kind, c.renewRPC(req, &resp))
	if err != nil {
		return Renewal{}, err
	}
	return renewalFromProto(&resp, sent), nil
}

func (c *Client) renewRPC(req RenewRequest, into *pb.RenewResponse) rpc {
	msg := &pb.RenewRequest{
		Key:          wire.KeyToProto(req.Key),
		FencingToken: req.Token,
		Lease:        wire.OptionalDurationToProto(req.Lease),
		Checkpoint:   req.Checkpoint,
	}
	return func(ctx context.Context, opts ...grpc.CallOption) error {
		resp, err := c.service.Renew(ctx, msg, opts...)
		if err == nil {
			into.Lease, into.LeaseExpireTime = resp.GetLease(), resp.GetLeaseExpireTime()
		}
		return err
	}
}

func renewalFromProto(p *pb.RenewResponse, sent time.Duration) Renewal {
	length := toldDuration(p.GetLease())
	return Renewal{Lease: length, TrustedUntil: trustedUntil(sent, length), sent: sent}
}

// refused says whether the service will not have the attempt any more: another
// has the key, or it is over.
func refused(err error) bool {
	return errors.Is(err, oncekeeper.ErrFenced) || errors.Is(err, oncekeeper.ErrKeyNotFound) ||
		errors.Is(err, oncekeeper.ErrAlreadySettled)
}

// keep renews the attempt's lease until ctx ends or the lease is lost; then it
// calls lose with the cause.
func (a *Attempt) keep(ctx context.Context, lose func(error)) {
	var failed error
	for tries := 0; ; {
		left, _ := a.lease.left()
		if left <= 0 {
			lose(leaseLost(failed))
			return
		}
		due := a.lease.renewIn()
		if failed != nil {
			due = max(due, a.client.pause(tries-1, failed))
		}
		if clock.Sleep(ctx, a.client.clock, min(due, left)) != nil {
			return
		}
		if left, _ = a.lease.left(); left <= 0 || (failed == nil && a.lease.renewIn() > 0) {
			continue
		}
		failed = a.renewOnce(ctx, left)
		switch {
		case failed == nil:
			tries = 0
		case ctx.Err() != nil:
			return
		case refused(failed):
			lose(leaseLost(failed))
			return
		default:
			tries++
		}
	}
}

// renewOnce tries once, for no longer than the lease is trusted.
func (a *Attempt) renewOnce(ctx context.Context, left time.Duration) error {
	var resp pb.RenewResponse
	sent := a.client.clock.Monotonic()
	err := a.client.try(ctx, callKind{name: "renew"}, min(a.client.callTimeout, left),
		a.client.renewRPC(RenewRequest{Key: a.key, Token: a.token, Lease: a.asked}, &resp))
	if err != nil {
		return err
	}
	a.lease.extend(sent, toldDuration(resp.GetLease()))
	if a.lease.renewIn() <= 0 {
		// Pause like after a failure, rather than renew without end.
		return errStillDue
	}
	return nil
}

var errStillDue = errors.New("the lease was renewed, and is to be renewed again already")

func leaseLost(why error) error {
	if why == nil {
		return ErrLeaseLost
	}
	return fmt.Errorf("%w: %w", ErrLeaseLost, why)
}
