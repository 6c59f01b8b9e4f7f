package client

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/steps"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// ErrReceipts: the receipts could not be asked, so that whether the effect is
// there is not known. It comes with ErrUnavailable: ask again.
var ErrReceipts = errors.New("oncekeeper: the receipts cannot be asked now, and without them nobody knows whether it happened")

var errReceiptTime = errors.New("the receipts did not answer in time: is a transaction of the key still open?")

// receipts is where a request's receipt is, and what its attempts show there. Nil:
// the request has none.
type receipts struct {
	client *Client
	store  receipt.Store
	codec  receipt.Codec
	claim  receipt.Claim
}

func (c *Client) receiptsOf(req Request) *receipts {
	if req.Receipts == nil {
		return nil
	}
	return &receipts{client: c, store: req.Receipts, codec: req.Codec, claim: receipt.Claim{
		Key: req.Key, FingerprintScheme: req.FingerprintScheme, Fingerprint: req.Fingerprint,
	}}
}

// of gives the claim of the attempt with token.
func (r *receipts) of(token int64) receipt.Claim {
	claim := r.claim
	claim.Token = token
	return claim
}

// permit gives an attempt's leave to apply its operation; nil where the request
// has no receipts.
func (r *receipts) permit(a *Attempt) *receipt.Permit {
	if r == nil {
		return nil
	}
	return &receipt.Permit{Claim: r.of(a.token), Codec: resourceCodec{Codec: r.codec, attempt: a}}
}

// resourceCodec keeps the pointer that an attempt left beside what is kept.
type resourceCodec struct {
	receipt.Codec
	attempt *Attempt
}

func (c resourceCodec) Encode(value any) (*oncekeeper.Response, error) {
	r, err := c.Codec.Encode(value)
	if err == nil && r.Resource == "" {
		if resource := c.attempt.resourceSet(); resource != "" {
			with := *r
			with.Resource = resource
			r = &with
		}
	}
	return r, err
}

// bounded gives a context for one question to the store.
func (r *receipts) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return clock.WithTimeout(ctx, r.client.clock, r.client.receiptTimeout, errReceiptTime)
}

// look reads the receipt for the attempt with token.
func (r *receipts) look(ctx context.Context, token int64) (*receipt.Receipt, steps.Finding, error) {
	bound, cancel := r.bounded(ctx)
	defer cancel()
	row, err := r.store.Look(bound, r.claim.Key)
	found := steps.Found(row, err, r.of(token))
	r.client.stats.looked.Add(1)
	r.count(found, &r.client.stats.lookedFound)
	return row, found, r.failed(ctx, "look at the receipt", found, err, bound)
}

// close keeps the attempt with token, and every one before, from applying the
// operation from now on.
func (r *receipts) close(ctx context.Context, token int64) (*receipt.Receipt, steps.Finding, error) {
	bound, cancel := r.bounded(ctx)
	defer cancel()
	claim := r.of(token)
	row, err := r.store.Close(bound, claim, steps.Floor(token))
	found := steps.FoundClosed(row, err, claim)
	r.client.stats.closed.Add(1)
	r.count(found, &r.client.stats.closedFound)
	return row, found, r.failed(ctx, "close the receipt", found, err, bound)
}

func (r *receipts) count(f steps.Finding, found counter) {
	switch f {
	case steps.Ours:
		found.Add(1)
	case steps.Anothers:
		r.client.stats.anothers.Add(1)
	case steps.Failed:
		r.client.stats.receiptsFailed.Add(1)
	}
}

// failed reports and wraps why the store proved nothing; nil where it did.
func (r *receipts) failed(ctx context.Context, what string, found steps.Finding, err error, bound context.Context) error {
	if found != steps.Failed {
		return nil
	}
	if err == nil {
		err = receipt.ErrInDoubt
	}
	if bound.Err() != nil && !errors.Is(err, context.Cause(bound)) {
		err = errors.Join(context.Cause(bound), err)
	}
	if ctx.Err() == nil {
		r.client.troubles.report(ctx, r.client.log, "the receipts give no answer", r.client.logKey(r.claim.Key), err)
	}
	return &unproven{what: what, says: ErrReceipts, cause: err}
}

// unproven is why a call is to come back: what was asked beside the service gave no
// proof. Its text has none of the cause's, which is a database's own.
type unproven struct {
	what        string
	says, cause error
}

func (e *unproven) Error() string { return e.what + ": " + e.says.Error() }

func (e *unproven) Unwrap() []error {
	if e.cause == nil {
		return []error{e.says, ErrUnavailable}
	}
	return []error{e.says, ErrUnavailable, e.cause}
}

// GRPCStatus gives UNAVAILABLE.
func (e *unproven) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// outcomeOf gives a receipt as the outcome that it is of.
func outcomeOf(row *receipt.Receipt) *oncekeeper.Outcome {
	return &oncekeeper.Outcome{
		Response: row.Response, Origin: oncekeeper.OriginAttempt, Token: row.Token, Settled: oncekeeper.InstantOf(row.Written),
	}
}

func (r *receipts) mismatch() error {
	return refusal(oncekeeper.ErrFingerprintMismatch, r.claim.Key.Operation, wire.Details{})
}
