package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/internal/downstream"
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
}

func (r Request) begin() BeginRequest {
	return BeginRequest{
		Key: r.Key, Fingerprint: r.Fingerprint, FingerprintScheme: r.FingerprintScheme,
		Lease: r.Lease, Retention: r.Retention, Hold: r.Hold, MaxAttempts: r.MaxAttempts,
	}
}

// Result is what became of a Request: exactly one of Ran, Outcome, InProgress
// and Unresolved, where Run gives no error.
type Result struct {
	// Ran: this call ran the operation, and Ended is how it ended, whole, whatever
	// of it could be kept.
	Ran   bool
	Ended Ended
	// Token is of the attempt that ran.
	Token int64
	// Unsettled is why the attempt that ran could not be settled, and nil where it
	// was. It is no error of Run: the effect is what it is, and an error would have
	// the caller ask for another. It Is oncekeeper.ErrKeyNotFound where there is no
	// record any more (its retention is over, or the service was lost): no other
	// attempt's outcome is known.
	Unsettled error

	// Outcome of an earlier attempt.
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
// Go's monotonic clock and its timers stand still while a Linux host is suspended,
// and the lease runs on. run learns of it at the next renewal, up to a third of
// the lease after the host resumes: what it writes to is to refuse an old Token.
//
// Errors, beside Begin's: ErrNested inside a running function of the same key;
// ErrLeaseLost where leases are too short to be kept; and, with a Result that Ran,
// oncekeeper.ErrFenced or ErrAlreadySettled where the service did not take the
// settlement: another attempt's outcome counts.
func (c *Client) Run(ctx context.Context, req Request, run func(ctx context.Context, a *Attempt) Ended) (Result, error) {
	if err := refuseNested(ctx, req.Key); err != nil {
		return Result{}, err
	}
	answer, lease, err := c.acquire(ctx, req)
	if err != nil || answer.Grant == nil {
		return Result{Outcome: answer.Outcome, InProgress: answer.InProgress, Unresolved: answer.Unresolved}, err
	}
	a := c.newAttempt(ctx, req, answer.Grant, lease)
	result := Result{Ran: true, Ended: c.runAttempt(ctx, a, req.MaxRunTime, run), Token: a.token}
	err = c.settleAttempt(ctx, a, result.Ended)
	if errors.Is(err, oncekeeper.ErrFenced) || errors.Is(err, oncekeeper.ErrAlreadySettled) {
		return result, err
	}
	if err != nil {
		result.Unsettled = err
		c.reportUnsettled(ctx, a, result.Ended.As, err)
	}
	return result, nil
}

func (c *Client) newAttempt(ctx context.Context, req Request, g *Grant, l *lease) *Attempt {
	a := &Attempt{
		client: c, key: req.Key, token: g.Token, number: g.Number, takeover: g.Takeover,
		limit: g.MaxResponseBytes, asked: req.Lease, lease: l,
		scheme: req.FingerprintScheme, digest: req.Fingerprint,
		saving: make(chan struct{}, 1), checkpoint: g.Checkpoint,
	}
	a.parent, _ = AttemptFromContext(ctx)
	a.ctx, a.lose = context.WithCancelCause(context.WithValue(downstream.WithAttempt(context.WithoutCancel(ctx), req.Key), attemptKey{}, a))
	return a
}

// runAttempt calls run with the lease kept, and leaves nothing running.
func (c *Client) runAttempt(ctx context.Context, a *Attempt, maxRunTime time.Duration, run func(context.Context, *Attempt) Ended) Ended {
	if maxRunTime <= 0 {
		maxRunTime = DefaultMaxRunTime
	}
	timer := c.clock.AfterFunc(maxRunTime, func() { a.lose(ErrRunTime) })
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		a.keep(a.ctx, a.lose)
	}()
	returned := false
	// No recover: the panic keeps its value and its stack, and Goexit goes on.
	defer func() {
		a.setReturned()
		timer.Stop()
		a.lose(errOver)
		<-kept
		if returned {
			return
		}
		crash := Ended{As: oncekeeper.SettledUnknown, Status: &oncekeeper.Status{
			Code: int32(codes.Unknown), Message: "the function panicked or left its goroutine",
		}}
		if err := c.settleAttempt(ctx, a, crash); err != nil {
			c.reportUnsettled(ctx, a, crash.As, err)
		}
	}()
	e := run(a.ctx, a)
	returned = true
	return e
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
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", k.Tenant, k.Operation, k.ID))
	return slog.String("key_hash", hex.EncodeToString(sum[:6]))
}
