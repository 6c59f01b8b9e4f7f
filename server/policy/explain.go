package policy

import (
	"fmt"
	"strings"
)

// Origin is where a value of a policy was given. The zero Origin is what the server
// has built in.
type Origin struct {
	// Rule is a rule's name, or DefaultRule.
	Rule string `json:"rule,omitempty"`
	// Line of the file.
	Line int `json:"line,omitempty"`
}

func (o Origin) String() string {
	switch {
	case o == Origin{}:
		return "built in"
	case o.Rule == DefaultRule:
		return fmt.Sprintf("defaults, line %d", o.Line)
	default:
		return fmt.Sprintf("rule %s, line %d", o.Rule, o.Line)
	}
}

// Value is a setting of a policy, as a file would say it.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  Origin `json:"from"`
}

// Rule is a rule as it is listed.
type Rule struct {
	Name string `json:"name"`
	Line int    `json:"line,omitempty"`
	// Tenant and Operation are its patterns.
	Tenant    string `json:"tenant"`
	Operation string `json:"operation"`
	// Gives are the values that it gives itself; of the defaults, those that the file
	// gives.
	Gives []Value `json:"gives"`
}

// Rules lists the rules in their order, and the defaults at the end.
func (s *Set) Rules() []Rule {
	list := make([]Rule, 0, len(s.rules)+1)
	for i := range s.rules {
		list = append(list, s.rules[i].listed())
	}
	return append(list, s.defaults.listed())
}

func (r *rule) listed() Rule {
	own := make([]Value, 0, settingCount)
	for _, v := range r.values() {
		if v.From.Line > 0 && v.From.Rule == r.name {
			own = append(own, v)
		}
	}
	return Rule{Name: r.name, Line: r.line, Tenant: r.tenant.String(), Operation: r.operation.String(), Gives: own}
}

func (r *rule) values() []Value {
	values := make([]Value, 0, settingCount)
	for i, s := range settings {
		values = append(values, Value{Name: s.name, Value: s.show(&r.policy), From: r.origins[i]})
	}
	return values
}

// Explanation says which rule holds for a key, and why.
type Explanation struct {
	// Rule holds: the first that fits, or DefaultRule.
	Rule string `json:"rule"`
	Line int    `json:"line,omitempty"`
	// Passed are the rules before it, which do not fit.
	Passed []Passed `json:"passed"`
	// Values are all that its policy says.
	Values []Value `json:"values"`
}

// Passed is a rule that does not fit a key.
type Passed struct {
	Rule   string `json:"rule"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// Explain says which rule For gives, why those before it do not fit, and where each
// value is given.
func (s *Set) Explain(tenant, operation string) Explanation {
	holds := s.rule(tenant, operation)
	e := Explanation{Rule: holds.name, Line: holds.line, Passed: []Passed{}, Values: holds.values()}
	for i := range s.rules {
		r := &s.rules[i]
		if r == holds {
			break
		}
		e.Passed = append(e.Passed, Passed{Rule: r.name, Line: r.line, Reason: r.unfit(tenant, operation)})
	}
	return e
}

// unfit says why r does not fit.
func (r *rule) unfit(tenant, operation string) string {
	var why []string
	if !r.tenant.Fits(tenant) {
		why = append(why, "the tenant does not fit "+r.tenant.String())
	}
	if !r.operation.Fits(operation) {
		why = append(why, "the operation does not fit "+r.operation.String())
	}
	return strings.Join(why, "; ")
}
