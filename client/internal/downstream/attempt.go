package downstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// Errors of Begin and of Derive. They are faults of the program, and pass with it:
// no guard keeps them as an answer.
var (
	ErrAtOnce    = errors.New("attach: two equal calls at once inside one attempt: give each its own attach.Step, or make one after the other")
	ErrStep      = errors.New("attach: a step's name is not empty, and is UTF-8")
	ErrNoAttempt = errors.New("attach: no attempt to derive a key from: the context is not a guarded handler's, nor that of a function given to client.Do")
)

// attempt is what is remembered of an attempt while its function runs.
type attempt struct {
	key oncekeeper.Key

	mu sync.Mutex
	// equal calls, by what makes them equal: of those with a step, while one is
	// under way; of the others, once one is.
	equal map[string]*calls
}

type calls struct {
	underWay bool
	// known outcomes so far.
	known int
}

type attemptKey struct{}

// WithAttempt gives the context of an attempt of key, from which the keys of the
// calls made inside it are derived. Inside another attempt it is the inner one that
// counts, and steps named outside it do not.
func WithAttempt(ctx context.Context, key oncekeeper.Key) context.Context {
	return context.WithValue(ctx, attemptKey{}, &attempt{key: key})
}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

type step struct {
	of   *attempt
	name string
}

type stepKey struct{}

// WithStep names the step that calls made with the context are.
func WithStep(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, stepKey{}, step{of: attemptOf(ctx), name: name})
}

// StepOf gives the step that was named inside the attempt of ctx; false for none.
func StepOf(ctx context.Context) (name string, named bool) {
	s, ok := ctx.Value(stepKey{}).(step)
	return s.name, ok && s.of != nil && s.of == attemptOf(ctx)
}

// Derive gives the key of a step that Oncekeeper does not send itself. Errors:
// ErrNoAttempt, ErrStep.
func Derive(ctx context.Context, name string) (string, error) {
	a := attemptOf(ctx)
	if a == nil {
		return "", ErrNoAttempt
	}
	if err := checkStep(name); err != nil {
		return "", err
	}
	return NamedKey(a.key, "", name), nil
}

// Call is a call that is under way inside an attempt, with all its tries. Whoever
// began it ends it.
type Call struct {
	// Key is that of all its tries.
	Key string
	// Named: it is of a step that was named, and not counted.
	Named bool

	attempt *attempt
	equal   string
}

// Begin gives the key of a call of method that is made with ctx, and nil outside an
// attempt. What request digests to tells equal calls where no step is named; it is
// not called otherwise. Errors: ErrAtOnce, ErrStep, request's own.
func Begin(ctx context.Context, method string, request func() (fingerprint.Fingerprint, error)) (*Call, error) {
	a := attemptOf(ctx)
	if a == nil {
		return nil, nil
	}
	if name, named := StepOf(ctx); named {
		if err := checkStep(name); err != nil {
			return nil, err
		}
		key := NamedKey(a.key, method, name)
		if _, ok := a.begin(key); !ok {
			return nil, fmt.Errorf("%w (step %q of %s)", ErrAtOnce, name, method)
		}
		return &Call{Key: key, Named: true, attempt: a, equal: key}, nil
	}
	digest, err := request()
	if err != nil {
		return nil, err
	}
	first := CountedKey(a.key, method, digest, 1)
	known, ok := a.begin(first)
	if !ok {
		return nil, fmt.Errorf("%w (%s)", ErrAtOnce, method)
	}
	return &Call{Key: CountedKey(a.key, method, digest, known+1), attempt: a, equal: first}, nil
}

// End says that no try of the call is left, and whether its outcome is known. An
// equal call gets the same key where it is not.
func (c *Call) End(known bool) {
	c.attempt.mu.Lock()
	defer c.attempt.mu.Unlock()
	equal := c.attempt.equal[c.equal]
	equal.underWay = false
	if known && !c.Named {
		equal.known++
	}
	if equal.known == 0 {
		delete(c.attempt.equal, c.equal)
	}
}

// begin is false while an equal call is under way.
func (a *attempt) begin(equal string) (known int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.equal == nil {
		a.equal = map[string]*calls{}
	}
	c := a.equal[equal]
	if c == nil {
		c = &calls{}
		a.equal[equal] = c
	}
	if c.underWay {
		return 0, false
	}
	c.underWay = true
	return c.known, true
}

func checkStep(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return ErrStep
	}
	return nil
}
