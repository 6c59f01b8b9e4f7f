package receipt

import (
	"context"
	"sync"

	"github.com/oncekeeper/oncekeeper"
)

// Codec turns what a handler gives into the response that is kept, and back. It is
// the guard's, so that the receipt holds the very bytes that the guard answers.
type Codec interface {
	// Encode gives value as it is kept, or an error that says which type the guard
	// takes.
	Encode(value any) (*oncekeeper.Response, error)
	// Decode reads what was kept into the value that into points at.
	Decode(kept *oncekeeper.Response, into any) error
}

// Permit is an attempt's leave to apply its operation once. The client package
// makes it; InTx finds it in the context, and leaves in it what was committed.
type Permit struct {
	Claim Claim
	Codec Codec

	mu      sync.Mutex
	taken   bool
	applied *oncekeeper.Response
}

// Take is called once by InTx, before its transaction, and gives ErrTwice after.
func (p *Permit) Take() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken {
		return ErrTwice
	}
	p.taken = true
	return nil
}

// Return takes Take back, where the transaction is known to have left nothing.
func (p *Permit) Return() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = false
}

// SetApplied leaves what the key's receipt holds, once that is committed, be it by
// this attempt or by one before.
func (p *Permit) SetApplied(r *oncekeeper.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied = r
}

// Applied gives what the key's receipt holds; nil where that is not known, and of a
// nil Permit.
func (p *Permit) Applied() *oncekeeper.Response {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied
}

type permitKey struct{}

// WithPermit gives a context for an attempt's function. A nil Permit hides that of
// an attempt around it, whose key is another.
func WithPermit(ctx context.Context, p *Permit) context.Context {
	return context.WithValue(ctx, permitKey{}, p)
}

// PermitFrom gives the permit of the attempt that ctx is of, and nil outside one:
// what runs unguarded has no receipt.
func PermitFrom(ctx context.Context) *Permit {
	p, _ := ctx.Value(permitKey{}).(*Permit)
	return p
}
