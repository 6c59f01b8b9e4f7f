package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Changes are what one set has otherwise than another, by the names of rules.
type Changes struct {
	Added, Removed []string
	// Changed have another policy, or hold for other keys.
	Changed []string
	// Reordered: the rules that both have come in another order.
	Reordered bool
}

// None: both sets say the same.
func (c Changes) None() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 && !c.Reordered
}

func (c Changes) String() string {
	var parts []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}} {
		if len(part.names) > 0 {
			parts = append(parts, part.what+" "+strings.Join(part.names, ", "))
		}
	}
	if c.Reordered {
		parts = append(parts, "in another order")
	}
	if c.None() {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// Since gives what s has otherwise than old.
func (s *Set) Since(old *Set) Changes {
	var c Changes
	var kept, before []string
	for _, name := range s.Names() {
		was, is := old.named(name), s.named(name)
		switch {
		case was == nil:
			c.Added = append(c.Added, name)
			continue
		case !is.says(was):
			c.Changed = append(c.Changed, name)
		}
		kept = append(kept, name)
	}
	for _, name := range old.Names() {
		if s.named(name) == nil {
			c.Removed = append(c.Removed, name)
			continue
		}
		before = append(before, name)
	}
	c.Reordered = !slices.Equal(kept, before)
	return c
}

func (s *Set) named(name string) *rule {
	if name == DefaultRule {
		return &s.defaults
	}
	for i := range s.rules {
		if s.rules[i].name == name {
			return &s.rules[i]
		}
	}
	return nil
}

// says: r has the policy of other, for the same keys.
func (r *rule) says(other *rule) bool {
	return r.policy == other.policy && fmt.Sprint(r.tenant, r.operation) == fmt.Sprint(other.tenant, other.operation)
}
