package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/oncekeeper/oncekeeper"
)

// errOver is the cause of a function's context once it has returned.
var errOver = errors.New("oncekeeper: the attempt is over")

// Attempt is one run of a key's operation. Its methods may be called from any
// goroutine.
type Attempt struct {
	client   *Client
	key      oncekeeper.Key
	token    int64
	number   int32
	takeover bool
	limit    int64
	asked    time.Duration // the lease asked for; 0: the policy's
	lease    *lease
	scheme   string
	digest   []byte
	parent   *Attempt // the attempt inside which this one runs
	outage   Outage   // how it runs where the service gave no verdict

	// ctx is the function's: ended with errOver once it has returned. lose ends it, by
	// end.
	ctx context.Context
	end context.CancelCauseFunc
	// saving lets one checkpoint be saved at a time, so that a retried one never
	// replaces a later one.
	saving chan struct{}

	mu sync.Mutex
	// endKeeping ends the keeping of the lease, and waits for nothing; nil where none
	// is kept.
	endKeeping func()
	checkpoint []byte
	resource   string
	returned   bool
	notRun     error
}

// lose ends the function's context. Its lease is kept until the receipt is closed
// where the function has returned, and no longer where anything else ended it.
func (a *Attempt) lose(cause error) {
	a.end(cause)
	a.mu.Lock()
	endKeeping := a.endKeeping
	a.mu.Unlock()
	if endKeeping != nil && !errors.Is(context.Cause(a.ctx), errOver) {
		endKeeping()
	}
}

// Key is the key that is being run.
func (a *Attempt) Key() oncekeeper.Key { return a.key }

// Token is the fencing token: whatever the attempt writes to should refuse one
// that is smaller than it has seen. It is at least 1, below 2^53, and grows with
// every attempt of the key. Where the service gave no verdict (Outage) it is 0.
func (a *Attempt) Token() int64 { return a.token }

// Outage says how the attempt runs where the service gave no verdict, and
// OutageClosed where it did.
func (a *Attempt) Outage() Outage { return a.outage }

// Number is 1 for the key's first attempt, and 0 where the service gave no verdict.
func (a *Attempt) Number() int32 { return a.number }

// Takeover says whether some earlier attempt ended with no known outcome: its
// effect may have happened. Look before doing it again. It is true where the service
// gave no verdict.
func (a *Attempt) Takeover() bool { return a.takeover }

// Fingerprint is the digest of the request that the key was begun with, and the
// name of its scheme. The digest is not to be changed.
func (a *Attempt) Fingerprint() (scheme string, digest []byte) { return a.scheme, a.digest }

// MaxResponseBytes is the largest body that can be kept for this key; 0: not
// told.
func (a *Attempt) MaxResponseBytes() int64 { return a.limit }

// Checkpoint gives a copy of what this attempt saved last, or else an earlier
// one; nil for nothing.
func (a *Attempt) Checkpoint() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bytes.Clone(a.checkpoint)
}

// SaveCheckpoint keeps b, up to oncekeeper.MaxCheckpointBytes, for a later
// attempt to go on from, and renews the lease. Empty clears it. Errors are
// oncekeeper.ErrInvalidRequest for more bytes, ErrFenced, ErrKeyNotFound or
// ErrAlreadySettled where the attempt is another's or over (then the function's
// context ends too), this package's ErrUnavailable, or the cause of ctx's or the
// function's context's end.
func (a *Attempt) SaveCheckpoint(ctx context.Context, b []byte) error {
	if len(b) > oncekeeper.MaxCheckpointBytes {
		return fmt.Errorf("save checkpoint: %w: %d bytes, at most %d", oncekeeper.ErrInvalidRequest, len(b), oncekeeper.MaxCheckpointBytes)
	}
	if a.ctx.Err() != nil {
		return fmt.Errorf("save checkpoint: %w", context.Cause(a.ctx))
	}
	if a.outage != OutageClosed {
		return fmt.Errorf("save checkpoint: %w", ErrUnavailable)
	}
	saved := append([]byte{}, b...) // never nil, which would leave the old one
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })()

	select {
	case a.saving <- struct{}{}:
		defer func() { <-a.saving }()
	case <-ctx.Done():
		return fmt.Errorf("save checkpoint: %w", context.Cause(ctx))
	}
	renewal, err := a.client.Renew(ctx, RenewRequest{Key: a.key, Token: a.token, Lease: a.asked, Checkpoint: saved})
	if refused(err) {
		a.lose(leaseLost(err))
	}
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	a.lease.extend(renewal.sent, renewal.Lease)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checkpoint = saved
	return nil
}

// SetResource leaves a stable pointer to what the operation makes ("charges/ch_1"),
// which is kept beside the response, and instead of it where the response is too
// large. It gives oncekeeper.ErrInvalidRequest, and leaves nothing, where s is
// over oncekeeper.MaxResourceBytes or not UTF-8.
func (a *Attempt) SetResource(s string) error {
	if len(s) > oncekeeper.MaxResourceBytes || !utf8.ValidString(s) {
		return fmt.Errorf("set resource: %w: at most %d bytes of UTF-8", oncekeeper.ErrInvalidRequest, oncekeeper.MaxResourceBytes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resource = s
	return nil
}

func (a *Attempt) resourceSet() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.resource
}

// running says whether the function has not returned yet. Its context may have
// ended before.
func (a *Attempt) running() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.returned
}

func (a *Attempt) setReturned() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.returned = true
}

// setNotRun says that the function did nothing of the attempt, for why.
func (a *Attempt) setNotRun(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notRun = why
}

func (a *Attempt) notRunFor() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.notRun
}

type attemptKey struct{}

// AttemptFromContext gives the attempt whose function was given ctx, or whose
// context ctx was made from; ok is false outside one.
func AttemptFromContext(ctx context.Context) (a *Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(*Attempt)
	return a, ok
}

// refuseNested gives ErrNested inside a running function of key.
func refuseNested(ctx context.Context, key oncekeeper.Key) error {
	a, _ := AttemptFromContext(ctx)
	for ; a != nil; a = a.parent {
		if a.key == key && a.running() {
			return ErrNested
		}
	}
	for b := batchFrom(ctx); b != nil; b = b.outer {
		for _, a := range b.attempts {
			if a.key == key && a.running() {
				return ErrNested
			}
		}
	}
	return nil
}
