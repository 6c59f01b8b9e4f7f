package rulefile

import "strings"

// Pattern is what a rule asks of a tenant or an operation: `*` stands for any run
// of bytes, also of none, and every other byte for itself.
type Pattern struct {
	text string
	// exact: there is no star, and text is all that fits.
	exact bool
	// first and last are what is before the first star and behind the last; inner
	// is what is between two.
	first, last string
	inner       []string
}

// NewPattern reads text, in which no byte but the star is special.
func NewPattern(text string) Pattern {
	pieces := strings.Split(text, "*")
	p := Pattern{text: text, exact: len(pieces) == 1, first: pieces[0], last: pieces[len(pieces)-1]}
	if len(pieces) > 2 {
		for _, piece := range pieces[1 : len(pieces)-1] {
			if piece != "" {
				p.inner = append(p.inner, piece)
			}
		}
	}
	return p
}

// Fits says whether s is one of p's. Each inner piece is taken where it comes
// first: that leaves the most for those behind it.
func (p *Pattern) Fits(s string) bool {
	if p.exact {
		return s == p.text
	}
	if len(s) < len(p.first)+len(p.last) || s[:len(p.first)] != p.first || s[len(s)-len(p.last):] != p.last {
		return false
	}
	s = s[len(p.first) : len(s)-len(p.last)]
	for _, piece := range p.inner {
		at := strings.Index(s, piece)
		if at < 0 {
			return false
		}
		s = s[at+len(piece):]
	}
	return true
}

// Covers says whether whatever fits q fits p. A star of q may stand for anything,
// so only a star of p may take it; a star is in no literal piece of p, so it is
// enough that p takes q's own text.
func (p *Pattern) Covers(q Pattern) bool { return p.Fits(q.text) }

// Patterns are alternatives; none fits anything.
type Patterns []Pattern

// Fits says whether one of ps fits s.
func (ps Patterns) Fits(s string) bool {
	if len(ps) == 0 {
		return true
	}
	for i := range ps {
		if ps[i].Fits(s) {
			return true
		}
	}
	return false
}

// Covers says whether each of qs is covered by one of ps. That two of ps cover one
// of qs between them is not seen.
func (ps Patterns) Covers(qs Patterns) bool {
	if len(ps) == 0 {
		return true
	}
	if len(qs) == 0 {
		qs = Patterns{NewPattern("*")}
	}
	for _, q := range qs {
		covered := false
		for i := range ps {
			covered = covered || ps[i].Covers(q)
		}
		if !covered {
			return false
		}
	}
	return true
}

// Exact gives all that ps fit, where that can be told: no pattern has a star.
func (ps Patterns) Exact() (all []string, ok bool) {
	for _, p := range ps {
		if !p.exact {
			return nil, false
		}
		all = append(all, p.text)
	}
	return all, len(ps) > 0
}

func (ps Patterns) String() string {
	if len(ps) == 0 {
		return "*"
	}
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.text
	}
	return strings.Join(texts, ", ")
}
