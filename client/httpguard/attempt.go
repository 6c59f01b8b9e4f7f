package httpguard

import (
	"context"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

type runKey struct{}

// run is what a guarded handler's context carries.
type run struct {
	attempt *client.Attempt
	record  *recorder
}

func runOf(ctx context.Context) (run, bool) {
	r, ok := ctx.Value(runKey{}).(run)
	return r, ok
}

// AttemptFrom gives the attempt that a guarded handler runs: its fencing token,
// its number, and whether it took over from one whose effect may stand. It is
// false where the request runs unguarded.
//
// It is the request's attempt all through the handler, also inside a client.Do
// that the handler calls; there client.AttemptFromContext gives that Do's own.
func AttemptFrom(ctx context.Context) (*client.Attempt, bool) {
	r, ok := runOf(ctx)
	return r.attempt, ok
}

// Takeover says whether some earlier attempt of the request's key ended with no
// known outcome: its effect may have happened, so the handler looks before it
// acts. It is false where the request runs unguarded.
func Takeover(ctx context.Context) bool {
	a, ok := AttemptFrom(ctx)
	return ok && a.Takeover()
}

// SetResource leaves a stable pointer to what the handler makes
// ("/charges/ch_1"), up to oncekeeper.MaxResourceBytes of UTF-8, or
// oncekeeper.ErrInvalidRequest: later callers get it where the answer was too
// large to keep. Where the request runs unguarded it does nothing.
func SetResource(ctx context.Context, resource string) error {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return nil
	}
	return a.SetResource(resource)
}

// SettleAs says what the handler knows, whatever its status code says by the
// route's table: oncekeeper.SettledComplete (this answer is kept and replayed),
// SettledRetryable (nothing was done: the next request runs) or SettledUnknown.
// The last call counts. It does not change that a 2xx is kept, and that an answer
// that is not whole, or is another guard's refusal, is not. Where the request
// runs unguarded it does nothing.
func SettleAs(ctx context.Context, as oncekeeper.Settlement) {
	if r, ok := runOf(ctx); ok {
		r.record.settleAs(as)
	}
}
