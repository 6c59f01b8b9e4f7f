package grpcguard

import (
	"context"

	"github.com/oncekeeper/oncekeeper/client"
)

type attemptKey struct{}

// AttemptFrom gives the attempt that a guarded handler runs: its fencing token,
// its number, and whether it took over from one whose effect may stand. It is
// false where the call runs unguarded.
func AttemptFrom(ctx context.Context) (*client.Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*client.Attempt)
	return a, ok
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
