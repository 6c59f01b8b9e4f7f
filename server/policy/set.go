package policy

import (
	"sync/atomic"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// DefaultRule names, for people and metrics, the policy of what no rule fits.
const DefaultRule = "default"

// Set says which policy holds for which key: that of the first rule that fits, or
// the defaults. It never changes, and may be asked from any goroutine.
type Set struct {
	rules    []rule
	defaults rule
}

// rule is a policy, and what it holds for.
type rule struct {
	name string
	// line is where the file has it; 0: in no file.
	line              int
	tenant, operation rulefile.Patterns
	policy            Policy
	origins           [settingCount]Origin
}

// Uniform gives the set in which p holds for every key, or what is wrong with p.
func Uniform(p Policy) (*Set, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Set{defaults: rule{name: DefaultRule, policy: p}}, nil
}

// BuiltIn is the set of a server that was told none.
func BuiltIn() *Set { return &Set{defaults: builtIn()} }

func builtIn() rule { return rule{name: DefaultRule, policy: Default()} }

// For gives the policy of a key, and the name of the rule that it is of: one of
// Names, however many tenants and operations there are.
func (s *Set) For(tenant, operation string) (Policy, string) {
	r := s.rule(tenant, operation)
	return r.policy, r.name
}

func (s *Set) rule(tenant, operation string) *rule {
	for i := range s.rules {
		if r := &s.rules[i]; r.operation.Fits(operation) && r.tenant.Fits(tenant) {
			return r
		}
	}
	return &s.defaults
}

// Names gives the names of the rules, in their order, and DefaultRule at the end.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.rules)+1)
	for i := range s.rules {
		names = append(names, s.rules[i].name)
	}
	return append(names, s.defaults.name)
}

// Source gives the set that holds now. What is decided about one call is decided
// by one set, so a call asks once.
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

// Use has set hold from now on: for calls that begin after it, and no grant given
// before.
func (l *Live) Use(set *Set) { l.set.Store(set) }
