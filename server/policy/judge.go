package policy

import "github.com/oncekeeper/oncekeeper/server/internal/rulefile"

// judge tells what is wrong with the values of d. What it only inherits is told of
// the defaults.
func (p *parser) judge(d *draft) {
	for _, v := range d.policy.violations() {
		own := func(at int) bool { return d.own[at] }
		unread := func(at int) bool { return d.unread[at] }
		if v.touches(own) && !v.touches(unread) {
			p.RefuseAt(d.lineOf(v), "%s", v.reason)
		}
	}
}

// lineOf gives where d says the last of what v is about.
func (d *draft) lineOf(v violation) int {
	line := 0
	for _, name := range v.settings {
		if at := settingNamed(name); d.own[at] {
			line = max(line, d.origins[at].Line)
		}
	}
	return line
}

func (p *parser) judgeNames() {
	first := map[string]int{}
	for _, d := range p.rules {
		if d.name == "" {
			continue
		}
		if line, twice := first[d.name]; twice {
			p.RefuseAt(d.line, "the name %s is taken by the rule in line %d", rulefile.Shown(d.name), line)
			continue
		}
		first[d.name] = d.line
	}
}

// judgeOrder refuses a rule that can never hold, because one before it takes all
// that it fits. That several take it between them is not seen.
func (p *parser) judgeOrder(i int) {
	later := &p.rules[i]
	for j := range p.rules[:i] {
		earlier := &p.rules[j]
		if !earlier.unfit && !later.unfit && earlier.tenant.Covers(later.tenant) && earlier.operation.Covers(later.operation) {
			p.RefuseAt(later.line, "the rule %s never holds: %s in line %d comes first and fits all that it fits",
				rulefile.Shown(later.name), rulefile.Shown(earlier.name), earlier.line)
			return
		}
	}
}
