package grpcguard

import (
	"context"

	"github.com/oncekeeper/oncekeeper/client"
)

type attemptKey struct{}

// AttemptFrom gives the attempt that a guarded handler runs: its fencing token,
// its number, and whether it took over from one whose effect may stand. It is
// false where the call runs unguarded.
//
// It is the call's attempt all through the handler, also inside a client.Do that
// the handler calls; there client.AttemptFromContext gives that Do's own.
func AttemptFrom(ctx context.Context) (*client.Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*client.Attempt)
	return a, ok
}

// Takeover says whether some earlier attempt of the call's key ended with no known
// outcome: its effect may have happened, so the handler looks before it acts. It
// is false where the call runs unguarded.
func Takeover(ctx context.Context) bool {
	a, ok := AttemptFrom(ctx)
	return ok && a.Takeover()
}

// SetResource leaves a stable pointer to what the handler makes ("charges/ch_1"),
// up to oncekeeper.MaxResourceBytes of UTF-8, or oncekeeper.ErrInvalidRequest:
// later callers get it where the response was too large to keep. Where the call
// runs unguarded it does nothing.
func SetResource(ctx context.Context, resource string) error {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return nil
	}
	return a.SetResource(resource)
}
