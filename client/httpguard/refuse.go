package httpguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// Delays that callers are asked to wait where the service named none. Retry-After
// makes each a second at least.
const (
	inProgressDelay  = time.Second
	supersededDelay  = time.Second
	unavailableDelay = time.Second
	unknownDelay     = time.Second
)

// inProgress asks the caller to come back.
func inProgress(delay time.Duration) *problem {
	if delay <= 0 {
		delay = inProgressDelay
	}
	return &problem{kind: inProgressProblem, delay: delay, Detail: "Another request with this key is being run. Ask again with the same request, and its answer is yours."}
}

// unresolved is the refusal of a request whose key is held. The token is no
// secret: to settle with it takes a credential of Oncekeeper's.
func unresolved(u *client.Unresolved) *problem {
	return &problem{
		kind: unresolvedProblem, FencingToken: u.Token, AttemptNumber: u.Number,
		Detail: "An attempt ended and left no outcome. The key is held until someone who can prove what happened settles it; to ask again changes nothing, and a new key may repeat the effect.",
	}
}

// notBegun turns an error of Run that ran nothing into the caller's. What the
// caller cannot mend is logged and told as a fault of this service's: the guard's
// own credentials are not the caller's.
func (o *operation) notBegun(ctx context.Context, err error) *problem {
	switch {
	case errors.Is(err, oncekeeper.ErrFingerprintMismatch):
		o.stats.mismatch.Add(1)
		return &problem{kind: mismatchProblem, Detail: "The key was sent with another request before. Use a new key for a new request."}
	case errors.Is(err, oncekeeper.ErrInvalidRequest):
		return o.invalid(ctx, err)
	case errors.Is(err, oncekeeper.ErrAlreadySettled):
		o.stats.inProgress.Add(1)
		return inProgress(0)
	case ctx.Err() != nil:
		o.stats.left.Add(1)
		return &problem{kind: unavailable, delay: unavailableDelay, Detail: "The request ended before it was begun."}
	case errors.Is(err, client.ErrNested):
		o.stats.unavailable.Add(1)
		o.faults.Report(ctx, o.name, "a request is guarded inside itself: is there a guard twice around the handler?", err)
		return &problem{kind: faultProblem, Detail: "The request is guarded inside itself."}
	case !errors.Is(err, client.ErrUnavailable):
		o.faults.Report(ctx, o.name, "Oncekeeper does not serve this guard", err)
	}
	o.stats.unavailable.Add(1)
	p := &problem{kind: unavailable, delay: unavailableDelay, Detail: "Whether the request ran before cannot be looked up now, so it was not run. Ask again with the same key."}
	if errors.Is(err, oncekeeper.ErrOverloaded) {
		p.kind = overloaded
	}
	if delay, ok := client.RetryDelay(err); ok {
		p.delay = delay
	}
	return p
}

// invalid blames the caller for its key alone; all else of a Begin is the guard's
// own configuration.
func (o *operation) invalid(ctx context.Context, err error) *problem {
	for _, v := range client.FieldViolations(err) {
		if v.Field == "key.id" {
			o.stats.refused.Add(1)
			return &problem{kind: invalidProblem, Detail: fmt.Sprintf("%s %s.", keyField, v.Description)}
		}
	}
	o.stats.unavailable.Add(1)
	o.faults.Report(ctx, o.name, "Oncekeeper refuses what this guard asks for", err)
	return &problem{kind: faultProblem, Detail: "The guard is configured wrongly: its log has it."}
}
