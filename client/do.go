package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// DoOption changes one Do.
type DoOption func(*doConfig)

type doConfig struct {
	request   Request
	codec     any
	reconcile any
}

// WithFingerprint has the key refused, with oncekeeper.ErrFingerprintMismatch,
// where it was begun with another digest under the same scheme: another request
// under an old key. Up to oncekeeper.MaxFingerprintBytes and MaxSchemeBytes.
func WithFingerprint(scheme string, digest []byte) DoOption {
	return func(d *doConfig) { d.request.FingerprintScheme, d.request.Fingerprint = scheme, digest }
}

// WithLease is how long the attempt may go unheard of; default and maximum are
// the policy's.
func WithLease(lease time.Duration) DoOption {
	return func(d *doConfig) { d.request.Lease = lease }
}

// WithRetention is how long the outcome is kept; default and maximum are the
// policy's.
func WithRetention(retention time.Duration) DoOption {
	return func(d *doConfig) { d.request.Retention = retention }
}

// WithWait bounds how long Do waits for another attempt; 0: not at all. Default:
// WaitForContext.
func WithWait(wait time.Duration) DoOption {
	return func(d *doConfig) { d.request.Wait = wait }
}

// WithHold keeps the key, after an attempt with no known outcome, until someone
// resolves it, rather than let the next attempt take over.
func WithHold() DoOption { return func(d *doConfig) { d.request.Hold = true } }

// WithMaxAttempts gives the key up after so many attempts, within policy.
func WithMaxAttempts(n int32) DoOption {
	return func(d *doConfig) { d.request.MaxAttempts = n }
}

// WithMaxRunTime ends the function's context after so long. Default:
// DefaultMaxRunTime.
func WithMaxRunTime(limit time.Duration) DoOption {
	return func(d *doConfig) { d.request.MaxRunTime = limit }
}

// WithCodec keeps the value by codec, of Do's own T. Default: DefaultCodec.
func WithCodec[T any](codec Codec[T]) DoOption { return func(d *doConfig) { d.codec = codec } }

// WithReceipts has fn's InTx leave a receipt of its effect in store, by Do's codec:
// InTx gives a T. See Run for what becomes of it.
func WithReceipts(store receipt.Store) DoOption {
	return func(d *doConfig) { d.request.Receipts = store }
}

// WithOutage says what to do where the service gives no verdict. OutageReceiptsOnly
// needs WithReceipts. Default: OutageClosed.
func WithOutage(mode Outage) DoOption { return func(d *doConfig) { d.request.Outage = mode } }

// WithReconcile asks f, of Do's own T, where nobody knows what became of an attempt:
// see Reconcile. The value goes with Happened. It takes ReceiptsTell too.
func WithReconcile[T any](f func(ctx context.Context, q Question) (Finding, T, error)) DoOption {
	return func(d *doConfig) { d.reconcile = f }
}

// Do runs fn once for key, however often it is asked for: the first caller runs
// it, everyone else gets what it gave. See Run for fn's context, the lease, and
// what becomes of a panic.
//
// Where this call ran fn:
//   - fn's value is kept and given. As JSON (DefaultCodec) it is given as later
//     callers get it, decoded from what is kept: a number in an any is a float64.
//     Too large to keep, not encodable, or not the same when it comes back (see
//     DefaultCodec), it is given as it is, the logger is told why, and later
//     callers get a *NotKeptError.
//   - fn's error is given as it is, but that a mark in it no longer counts: an
//     attempt around this one settles by what it says itself. Later callers get
//     StatusOf it as a *FailedError if it was marked by oncekeeper.Final, and run
//     again if by oncekeeper.NotApplied; any other error leaves the outcome
//     unknown, and the next call takes over or is held. An error of this service
//     in it is never final. Details over the limit of a response
//     (Attempt.MaxResponseBytes) are left out for them.
//   - With WithReceipts, what fn's InTx committed is given, decoded, whatever fn gave;
//     and where the receipt was closed to fn's attempt the error Is ErrUnavailable,
//     as well as oncekeeper.ErrFenced: ask again.
//   - Where the service did not take the settlement, the error Is
//     oncekeeper.ErrFenced or ErrAlreadySettled (and fn's, if any): another
//     attempt's outcome counts, and fn's value is not given.
//   - Where the service could not be told in time, or has no record of the key any
//     more, fn's value is given with no error, since the effect happened and an
//     error would have it asked for again. The logger and WithUnsettled are told.
//
// Otherwise: the kept value; a *FailedError; a *NotKeptError, which Is
// oncekeeper.ErrResponseNotKept; ErrUndecodable where what is kept is no T;
// oncekeeper.ErrInProgress with a RetryDelay where another attempt still ran when
// the wait ended; oncekeeper.ErrUnresolved where the key is held; and Run's
// errors.
func Do[T any](ctx context.Context, keeper *Client, key oncekeeper.Key, fn func(ctx context.Context, a *Attempt) (T, error), opts ...DoOption) (T, error) {
	d, err := doingOf[T](key, opts)
	if err != nil {
		var none T
		return none, err
	}
	result, err := keeper.Run(ctx, d.request, func(ctx context.Context, a *Attempt) Ended {
		value, failure := fn(ctx, a)
		return d.ended(ctx, a, value, failure)
	})
	return d.answer(result, err)
}

// doing is one Do, or one item of a DoBatch.
type doing[T any] struct {
	request Request
	codec   Codec[T]
	// value and failure are what fn gave.
	value   T
	failure error
}

func doingOf[T any](key oncekeeper.Key, opts []DoOption) (*doing[T], error) {
	d := doConfig{request: Request{Key: key, Wait: WaitForContext}, codec: DefaultCodec[T]()}
	for _, opt := range opts {
		opt(&d)
	}
	codec, ok := d.codec.(Codec[T])
	if !ok {
		var none T
		return nil, fmt.Errorf("oncekeeper: the codec given is a %T, which is no codec of %T", d.codec, none)
	}
	if d.request.Receipts != nil {
		d.request.Codec = receiptCodec[T]{codec}
	}
	if err := setReconcile(&d, codec); err != nil {
		return nil, err
	}
	return &doing[T]{request: d.request, codec: codec}, nil
}

// ended notes what fn gave, and gives how its attempt ended.
func (d *doing[T]) ended(ctx context.Context, a *Attempt, value T, failure error) Ended {
	if d.value, d.failure = value, failure; failure != nil {
		return endedBy(failure)
	}
	var kept *oncekeeper.Response
	kept, d.value = encode(ctx, a, d.codec, value)
	return Ended{As: oncekeeper.SettledComplete, Response: kept}
}

// answer is what the caller gets, by what Run gave.
func (d *doing[T]) answer(result Result, err error) (T, error) {
	var none T
	switch {
	case errors.Is(err, ErrUnavailable):
		// What fn said of itself may not be what counts.
		return none, err
	case err != nil && d.failure != nil:
		return none, errors.Join(told(d.failure), err)
	case err != nil:
		return none, err
	case result.Receipt:
		return decode(d.codec, result.Ended.Response)
	case result.Outcome != nil || !result.Ran:
		return replay(d.request.Key, result, d.codec)
	case d.failure != nil && errors.Is(d.failure, oncekeeper.ErrFenced) && (result.Outage == OutageReceiptsOnly || d.request.Receipts != nil && oncekeeper.IsRolledBack(d.failure)):
		// The receipt's word, and not the service's: there may be no later attempt.
		return none, &unproven{what: "run", says: errFloored, cause: told(d.failure)}
	case d.failure != nil:
		return none, told(d.failure)
	default:
		return d.value, nil
	}
}

// told gives fn's error to Do's caller: the mark in it spoke for this attempt, and
// says nothing of one around it. An error without a mark is given as it is, so
// that a status keeps its own message.
func told(failure error) error {
	if oncekeeper.SettlementOf(failure) == oncekeeper.SettledUnknown && !oncekeeper.IsRolledBack(failure) {
		return failure
	}
	return oncekeeper.Past(failure)
}

// encode gives what is kept of a value, and the value as everyone gets it; where
// it cannot be encoded, that it was, and the value itself.
func encode[T any](ctx context.Context, a *Attempt, codec Codec[T], value T) (*oncekeeper.Response, T) {
	given := value
	var body []byte
	var contentType string
	var err error
	if j, ok := codec.(jsonCodec[T]); ok {
		contentType = ContentTypeJSON
		given, body, err = j.keep(value)
	} else {
		body, contentType, err = codec.Encode(value)
	}
	if err == nil && len(contentType) > oncekeeper.MaxContentTypeBytes {
		err = fmt.Errorf("its content type has %d bytes, at most %d are kept", len(contentType), oncekeeper.MaxContentTypeBytes)
	}
	if err != nil {
		a.client.log.WarnContext(ctx, "the value cannot be encoded: later callers are told that it was not kept",
			a.client.logKey(a.key), "error", err)
		return &oncekeeper.Response{Omitted: true}, value
	}
	return &oncekeeper.Response{Body: body, ContentType: contentType}, given
}

// replay gives what the key answers where this call did not run it.
func replay[T any](key oncekeeper.Key, r Result, codec Codec[T]) (T, error) {
	var none T
	switch {
	case r.InProgress != nil:
		return none, refusal(oncekeeper.ErrInProgress, key.Operation, wire.Details{RetryDelay: r.InProgress.RetryDelay})
	case r.Unresolved != nil:
		return none, refusal(oncekeeper.ErrUnresolved, key.Operation, wire.Details{})
	case r.Outcome.Status != nil:
		return none, &FailedError{Outcome: r.Outcome}
	case r.Outcome.Response == nil:
		return none, fmt.Errorf("%w: its outcome is of a kind that this version does not know", ErrUndecodable)
	case r.Outcome.Response.Omitted:
		return none, &NotKeptError{
			Resource: r.Outcome.Response.Resource, Outcome: r.Outcome,
			err: refusal(oncekeeper.ErrResponseNotKept, key.Operation, wire.Details{}),
		}
	}
	return decode(codec, r.Outcome.Response)
}

func decode[T any](codec Codec[T], r *oncekeeper.Response) (T, error) {
	value, err := codec.Decode(r.Body, r.ContentType)
	if err != nil {
		var none T
		return none, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return value, nil
}
