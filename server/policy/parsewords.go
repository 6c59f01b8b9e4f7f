package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

func (p *parser) readName(n *yaml.Node) string {
	name, ok := p.scalar(n, "name")
	switch {
	case !ok:
	case name == DefaultRule:
		p.refuse(n, "the name %q is kept for what no rule fits", name)
	case !isRuleName(name):
		p.refuse(n, "the name %s is not 1 to %d of a-z, 0-9, _ and -: metrics are labelled with it", shown(name), maxRuleName)
	}
	return name
}

const maxRuleName = 64

func isRuleName(name string) bool {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' }
	return name != "" && len(name) <= maxRuleName && strings.IndexFunc(name, odd) < 0
}

// maxPatterns bounds the alternatives of a rule.
const maxPatterns = 32

func (p *parser) readPatterns(d *draft, key string, n *yaml.Node, limit int) patterns {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if items = n.Content; len(items) == 0 || len(items) > maxPatterns {
			p.refuse(n, "%s has %d patterns; 1 to %d are taken", key, len(items), maxPatterns)
			d.unfit = true
			return nil
		}
	}
	var ps patterns
	for _, item := range items {
		text, ok := p.scalar(item, key)
		if ok {
			ok = p.judgePattern(item, key, text, limit)
		}
		d.unfit = d.unfit || !ok
		ps = append(ps, newPattern(text))
	}
	return ps
}

// judgePattern refuses what fits no key, since keys have limits too.
func (p *parser) judgePattern(n *yaml.Node, key, text string, limit int) bool {
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	switch {
	case text == "":
		p.refuse(n, "%s is empty, and fits nothing: * fits all", key)
	case len(text)-strings.Count(text, "*") > limit:
		p.refuse(n, "%s is longer than any key's, which has %d bytes at the most", key, limit)
	case strings.Contains(text, "**"):
		p.refuse(n, "%s has two stars side by side: one fits as much", key)
	case strings.ContainsFunc(text, unicode.IsControl):
		p.refuse(n, "%s has a control character, and fits nothing", key)
	case unicode.Is(unicode.White_Space, first) || unicode.Is(unicode.White_Space, last):
		p.refuse(n, "%s has white space at an end, and fits nothing", key)
	default:
		return true
	}
	return false
}
