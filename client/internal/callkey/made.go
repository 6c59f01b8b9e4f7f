package callkey

import "context"

// Made is a key that an interceptor made for a call that named none: it lasts for
// that call alone, so whoever knows a better one may replace it.
type Made struct {
	Key string
	// Field is the request field that it was put into; empty: none.
	Field string
}

type madeKey struct{}

// WithMade tells the interceptors further in that a call's key was made.
func WithMade(ctx context.Context, made Made) context.Context {
	return context.WithValue(ctx, madeKey{}, made)
}

// MadeOf gives the key that was made for the call of ctx; false where it was
// named, or has none.
func MadeOf(ctx context.Context) (Made, bool) {
	made, ok := ctx.Value(madeKey{}).(Made)
	return made, ok
}
