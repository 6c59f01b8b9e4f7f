package policy

import "strings"

// pattern is what a rule asks of a tenant or an operation: `*` stands for any run
// of bytes, also of none, and every other byte for itself.
type pattern struct {
	text string
	// exact: there is no star, and text is all that fits.
	exact bool
	// first and last are what is before the first star and behind the last; inner
	// is what is between two.
	first, last string
	inner       []string
}

func newPattern(text string) pattern {
	pieces := strings.Split(text, "*")
	p := pattern{text: text, exact: len(pieces) == 1, first: pieces[0], last: pieces[len(pieces)-1]}
	if len(pieces) > 2 {
		for _, piece := range pieces[1 : len(pieces)-1] {
			if piece != "" {
				p.inner = append(p.inner, piece)
			}
		}
	}
	return p
}

// fits says whether s is one of p's. Each inner piece is taken where it comes
// first: that leaves the most for those behind it.
func (p *pattern) fits(s string) bool {
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

// covers says whether whatever fits q fits p. A star of q may stand for anything,
// so only a star of p may take it; a star is in no literal piece of p, so it is
// enough that p takes q's own text.
func (p *pattern) covers(q pattern) bool { return p.fits(q.text) }

// patterns are alternatives; none fits anything.
type patterns []pattern

func (ps patterns) fits(s string) bool {
	if len(ps) == 0 {
		return true
	}
	for i := range ps {
		if ps[i].fits(s) {
			return true
		}
	}
	return false
}

// covers says whether each of qs is covered by one of ps. That two of ps cover one
// of qs between them is not seen.
func (ps patterns) covers(qs patterns) bool {
	if len(ps) == 0 {
		return true
	}
	if len(qs) == 0 {
		qs = patterns{newPattern("*")}
	}
	for _, q := range qs {
		covered := false
		for i := range ps {
			covered = covered || ps[i].covers(q)
		}
		if !covered {
			return false
		}
	}
	return true
}

func (ps patterns) String() string {
	if len(ps) == 0 {
		return "*"
	}
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.text
	}
	return strings.Join(texts, ", ")
}
