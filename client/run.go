package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/downstream"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/clock"
)

// DefaultMaxRunTime is how long a function may run where nothing else is said.
const DefaultMaxRunTime = 15 * time.Minute

// WaitForContext waits for another attempt for as long as the context allows: to
// shortly before its deadline, and where it has none, WithMaxWait.
const WaitForContext time.Duration = -1

// Request asks to run the operation that Key names.
type Request struct {
	Key oncekeeper.Key
	// Fingerprint and the fields to MaxAttempts: see BeginRequest.
	Fingerprint       []byte
	FingerprintScheme string
	Lease, Retention  time.Duration
	Hold              bool
	MaxAttempts       int32
	// Wait is how long to wait for another attempt, in all; 0: not at all;
	// WaitForContext or any negative: as the context allows.
	Wait time.Duration
	// MaxRunTime ends the function's context with ErrRunTime, and the renewing of
	// its lease. 0: DefaultMaxRunTime.
	MaxRunTime time.Duration

	// Receipts is where the function's InTx leaves a receipt of its effect, and
	// Codec how what it gives is kept; both or neither.
	Receipts receipt.Store
	Codec    receipt.Codec
	// Outage is what to do where the service gives no verdict.
	Outage Outage
	// Reconcile is asked where nobody knows what became of an attempt. Nil: the next
	// one runs, or the key is held.
	Reconcile Reconcile

	// AnswerFirst has Run return what the attempt's own InTx committed while it is
	// being settled, so that its caller waits for one round trip and not for two; it
	// needs Receipts. Everything else is settled first: what has no receipt of this
	// attempt, a failure, any attempt where Hold is set, of a batch, or where
	// WithMaxAnsweredFirst are under way or Drain was called. A process that dies between leaves an
	// attempt whose lease ends, and the next one finds the receipt and gives the same
	// bytes; callers that come meanwhile are told InProgress. That the settlement
	// failed is logged, counted (Stats) and told to WithUnsettled.
	AnswerFirst bool

	sight *sight
}

// check gives what is wrong with the request itself.
func (r Request) check() error {
	switch {
	case r.AnswerFirst && r.Receipts == nil:
		return fmt.Errorf("%w: to answer before an attempt is settled takes a store of receipts", oncekeeper.ErrInvalidRequest)
	case (r.Receipts == nil) != (r.Codec == nil):
		return fmt.Errorf("%w: a request has a store of receipts and a codec, or neither", oncekeeper.ErrInvalidRequest)
	case r.Outage == OutageReceiptsOnly && r.Receipts == nil:
		return fmt.Errorf("%w: outage mode %q needs a store of receipts", oncekeeper.ErrInvalidRequest, r.Outage)
	case r.Outage > OutageOpen:
		return fmt.Errorf("%w: %d is no outage mode", oncekeeper.ErrInvalidRequest, r.Outage)
	default:
		return nil
	}
}

func (r Request) begin() BeginRequest {
	return BeginRequest{
		Key: r.Key, Fingerprint: r.Fingerprint, FingerprintScheme: r.FingerprintScheme,
		Lease: r.Lease, Retention: r.Retention, Hold: r.Hold, MaxAttempts: r.MaxAttempts,
		TraceParent: r.sight.traceParent(),
	}
}

// Result is what became of a Request: Ran, or exactly one of Outcome, InProgress
// and Unresolved, where Run gives no error.
type Result struct {
	// Ran: this call ran the operation, and Ended is how it ended, whole, whatever
	// of it could be kept. Where Outcome is set too, an effect of an earlier attempt
	// was found when this one's receipt was closed, and the Outcome is the answer.
	Ran   bool
	Ended Ended
	// Receipt: Ended is what the receipt holds, by this attempt's InTx. It is the
	// answer, whatever the function gave.
	Receipt bool
	// Token is of the attempt that ran; 0 where Outage is another than OutageClosed.
	Token int64
	// Outage says how it ran where the service gave no verdict.
	Outage Outage
	// Unsettled is why the attempt that ran could not be settled as it ended, and nil
	// where it was. It is no error of Run: the effect is what it is, and an error
	// would have the caller ask for another. It Is oncekeeper.ErrKeyNotFound where
	// there is no record any more (its retention is over, or the service was lost): no
	// other attempt's outcome is known; and ErrReceipts where the receipt could not be
	// closed, so that the attempt was settled as unknown.
	Unsettled error

	// Settling: the attempt that ran was answered first, and is being settled.
	Settling bool

	// Outcome of an earlier attempt, by the service or by its receipt.
	Outcome *oncekeeper.Outcome
	// InProgress: another attempt was still running when the wait ended.
	InProgress *InProgress
	// Unresolved: an attempt ended with no known outcome, and the key is held.
	Unresolved *Unresolved
}

// Run begins req, waits as asked, and calls run in this goroutine if the attempt
// is granted. It is what Do and the guards stand on.
//
// The context that run gets has ctx's values, but neither its end nor its
// deadline: a caller that hangs up leaves an attempt that is settled all the
// same. It ends when the lease is lost (cause ErrLeaseLost), at the maximum run
// time (ErrRunTime), and when run returns. The lease is renewed at every third of
// it, and settled when run returns, for up to WithSettleTimeout. Where run panics
// or calls runtime.Goexit the attempt is settled as unknown, and the panic goes
// on. A grant that is not run is given back.
//
// With Request.Receipts, run's context carries the leave that InTx takes, and:
//   - what run's InTx committed is the outcome, whatever run gives or does after;
//   - on a takeover, on any attempt but the first, and for a key that is held, the
//     receipt is read before anything runs. An effect that is found there is the
//     outcome, and the key is completed with it;
//   - before an attempt is settled that has no receipt, but as unknown or as not run,
//     its receipt is closed, so that neither it nor an earlier one can have an effect any more.
//     An effect that is found then is the outcome. Where closing fails the attempt is
//     settled as unknown: a value is given to its caller all the same, and for a
//     final failure the caller gets ErrReceipts;
//   - a final failure that could not be settled is not given either: the next attempt
//     may have the effect. The error Is ErrUnavailable.
//
// Go's monotonic clock and its timers stand still while a Linux host is suspended,
// and the lease runs on. run learns of it at the next renewal, up to a third of
// the lease after the host resumes: what it writes to is to refuse an old Token.
//
// Errors, beside Begin's: ErrNested inside a running function of the same key;
// oncekeeper.ErrInvalidRequest for a Request that contradicts itself; ErrLeaseLost
// where leases are too short to be kept; ErrReceipts, with ErrUnavailable, where the
// receipts could not be asked and nothing ran; ErrUnavailable where the reconciler
// cannot tell; oncekeeper.ErrFingerprintMismatch also where the receipt is another
// request's; and, with a Result that Ran, oncekeeper.ErrFenced or ErrAlreadySettled
// where the service did not take the settlement: another attempt's outcome counts.
func (c *Client) Run(ctx context.Context, req Request, run func(ctx context.Context, a *Attempt) Ended) (Result, error) {
	if err := refuseNested(ctx, req.Key); err != nil {
		return Result{}, err
	}
	if err := req.check(); err != nil {
		return Result{}, err
	}
	ctx, req.sight = c.see(ctx, req.Key)
	result, err := Result{}, errCrashed // unless it returns
	defer func() { req.sight.end(result, err) }()
	result, err = c.runOnce(ctx, req, run)
	return result, err
}

// runOnce is Run of a request that is in order.
func (c *Client) runOnce(ctx context.Context, req Request, run func(ctx context.Context, a *Attempt) Ended) (Result, error) {
	r := c.receiptsOf(req)
	waiting := c.startWaiting(ctx, req.Wait)
	var released int64
	for again := 0; ; again++ {
		answer, lease, err := c.acquire(ctx, req, waiting)
		if err == nil && answer.Grant != nil {
			return c.carry(ctx, req, r, answer.Grant, lease, run)
		}
		u := unbegun{answer: answer, err: err, released: released}
		result, err := c.answerUnbegun(ctx, req, r, u, run)
		if !errors.Is(err, errBeginAgain) {
			return result, err
		}
		if again == maxLost {
			return Result{InProgress: &InProgress{}}, nil
		}
		released = u.token()
		if again > 0 && clock.Sleep(ctx, c.clock, c.pause(again-1, nil)) != nil {
			return Result{}, ended(ctx, nil)
		}
	}
}

func (c *Client) newAttempt(ctx context.Context, req Request, g *Grant, l *lease) *Attempt {
	a := &Attempt{
		client: c, key: req.Key, token: g.Token, number: g.Number, takeover: g.Takeover,
		limit: g.MaxResponseBytes, asked: req.Lease, lease: l,
		scheme: req.FingerprintScheme, digest: req.Fingerprint,
		saving: make(chan struct{}, 1), checkpoint: g.Checkpoint,
	}
	a.parent, _ = AttemptFromContext(ctx)
	a.ctx, a.end = context.WithCancelCause(context.WithValue(downstream.WithAttempt(context.WithoutCancel(ctx), req.Key), attemptKey{}, a))
	return a
}

// call calls run with the permit, nil for none, in its context. That an attempt
// around this one has a permit gives this one none. The function's context ends
// when call does, however that is.
func (a *Attempt) call(p *receipt.Permit, maxRunTime time.Duration, run func(context.Context, *Attempt) Ended) Ended {
	ctx, over := a.start(p, maxRunTime)
	defer over()
	return run(ctx, a)
}

// start gives the context of the attempt's function, and what to call when that is
// over.
func (a *Attempt) start(p *receipt.Permit, maxRunTime time.Duration) (ctx context.Context, over func()) {
	if maxRunTime <= 0 {
		maxRunTime = DefaultMaxRunTime
	}
	timer := a.client.clock.AfterFunc(maxRunTime, func() { a.lose(ErrRunTime) })
	return withPermit(a.ctx, p), func() {
		a.setReturned()
		timer.Stop()
		a.lose(errOver)
	}
}

func withPermit(ctx context.Context, p *receipt.Permit) context.Context {
	if p == nil && receipt.PermitFrom(ctx) == nil {
		return ctx
	}
	return receipt.WithPermit(ctx, p)
}

var settlementNames = map[oncekeeper.Settlement]string{
	oncekeeper.SettledComplete: "complete", oncekeeper.SettledRetryable: "retryable",
	oncekeeper.SettledFinal: "final", oncekeeper.SettledUnknown: "unknown",
}

func (c *Client) reportUnsettled(ctx context.Context, a *Attempt, as oncekeeper.Settlement, err error) {
	c.log.WarnContext(ctx, "an attempt ran and could not be settled: the next one takes over, is held, or runs as the first where the record is gone",
		c.logKey(a.key), "token", a.token, "settlement", settlementNames[as], "error", err)
	c.unsettled(Unsettled{Key: a.key, Token: a.token, As: as, Err: err})
}

// logKey names a key in a log without telling it.
func (c *Client) logKey(k oncekeeper.Key) slog.Attr {
	return slog.String("key_hash", k.Hash())
}
