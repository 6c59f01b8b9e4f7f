package rulefile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxPatterns bounds the alternatives in one place.
const maxPatterns = 32

// Patterns gives the patterns that key has in n, one or a list of them, for a part of
// keys that has limit bytes at the most; ok: they are fit to be compared.
func (p *Reader) Patterns(key string, n *yaml.Node, limit int) (ps Patterns, ok bool) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if items = n.Content; len(items) == 0 || len(items) > maxPatterns {
			p.Refuse(n, "%s has %d patterns; 1 to %d are taken", key, len(items), maxPatterns)
			return nil, false
		}
	}
	ok = true
	for _, item := range items {
		text, fit := p.Scalar(item, key)
		if fit {
			fit = p.judgePattern(item, key, text, limit)
		}
		ok = ok && fit
		ps = append(ps, NewPattern(text))
	}
	return ps, ok
}

// judgePattern refuses what fits no key, since keys have limits too.
func (p *Reader) judgePattern(n *yaml.Node, key, text string, limit int) bool {
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	switch {
	case text == "":
		p.Refuse(n, "%s is empty, and fits nothing: * fits all", key)
	case len(text)-strings.Count(text, "*") > limit:
		p.Refuse(n, "%s is longer than any key's, which has %d bytes at the most", key, limit)
	case strings.Contains(text, "**"):
		p.Refuse(n, "%s has two stars side by side: one fits as much", key)
	case strings.ContainsFunc(text, unicode.IsControl):
		p.Refuse(n, "%s has a control character, and fits nothing", key)
	case unicode.Is(unicode.White_Space, first) || unicode.Is(unicode.White_Space, last):
		p.Refuse(n, "%s has white space at an end, and fits nothing", key)
	default:
		return true
	}
	return false
}
