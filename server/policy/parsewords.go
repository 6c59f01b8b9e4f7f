package policy

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

func (p *parser) readName(n *yaml.Node) string {
	name, ok := p.Scalar(n, "name")
	switch {
	case !ok:
	case name == DefaultRule:
		p.Refuse(n, "the name %q is kept for what no rule fits", name)
	case !isRuleName(name):
		p.Refuse(n, "the name %s is not 1 to %d of a-z, 0-9, _ and -: metrics are labelled with it", rulefile.Shown(name), maxRuleName)
	}
	return name
}

const maxRuleName = 64

func isRuleName(name string) bool {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' }
	return name != "" && len(name) <= maxRuleName && strings.IndexFunc(name, odd) < 0
}

// readPatterns reads the patterns of d's tenants or operations.
func (p *parser) readPatterns(d *draft, key string, n *yaml.Node, limit int) rulefile.Patterns {
	ps, ok := p.Patterns(key, n, limit)
	d.unfit = d.unfit || !ok
	return ps
}
