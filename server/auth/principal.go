// Package auth says who calls and what they may do: principals, how a file says
// them, how a call shows which one it is of, and one table of what each call asks.
//
// It knows no store and no record, and decides nothing about a key.
package auth

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// Principal is somebody who calls. It never changes.
type Principal struct {
	name                string
	line                int
	role                Role
	tenants, operations rulefile.Patterns
	// tokens are SHA-256 digests of bearer tokens.
	tokens [][32]byte
	// uris and dns are names that a certificate may hold.
	uris, dns []string
	// expires is from when on the principal is nobody; zero: never.
	expires time.Time
}

// Name of the principal, which is kept with what it does: 1 to
// oncekeeper.MaxPrincipalBytes. Nobody, nil, has none.
func (p *Principal) Name() string {
	if p == nil {
		return ""
	}
	return p.name
}

func (p *Principal) has(roles []Role) bool { return slices.Contains(roles, p.role) }

// within says whether ps fit name, or all where name is empty.
func within(ps rulefile.Patterns, name string) bool {
	if name == "" {
		return ps.Covers(nil)
	}
	return ps.Fits(name)
}

// named gives the names that name stands for: itself, or where it is empty "" for
// all, or those that ps list; nil where ps do not tell.
func named(ps rulefile.Patterns, name string) []string {
	if name != "" || ps.Covers(nil) {
		return []string{name}
	}
	all, _ := ps.Exact()
	slices.Sort(all)
	return slices.Compact(all)
}

// Set is the principals that there are. It never changes, and may be asked from any
// goroutine.
type Set struct{ all []*Principal }

// Source gives the set that holds now. One call is judged by one set.
type Source interface {
	// Current never gives nil.
	Current() *Set
}

// Current makes a Set the Source of itself.
func (s *Set) Current() *Set { return s }

// Live is a Source whose set is exchanged, whole, while calls go on. Make it with
// NewLive; its methods may be called from any goroutine.
type Live struct{ set atomic.Pointer[Set] }

// NewLive gives a Live that holds set.
func NewLive(set *Set) *Live {
	l := &Live{}
	l.set.Store(set)
	return l
}

// Current implements Source.
func (l *Live) Current() *Set { return l.set.Load() }

// Use has set hold for calls that come after it.
func (l *Live) Use(set *Set) { l.set.Store(set) }

// NeedCertificates gives the first principal that nothing but a certificate shows.
func (s *Set) NeedCertificates() (name string, any bool) {
	for _, p := range s.all {
		if len(p.tokens) == 0 {
			return p.name, true
		}
	}
	return "", false
}

type principalKey struct{}

// NewContext gives a context of a call by p.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext gives who makes the call that ctx is of; nil where it is not known.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
