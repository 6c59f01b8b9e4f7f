package rulefile

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// few letters, so that what is drawn fits often.
func drawn(t *rapid.T, label string, alphabet string) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 0, 8, -1).Draw(t, label)
}

func asRegexp(text string) *regexp.Regexp {
	pieces := strings.Split(text, "*")
	for i := range pieces {
		pieces[i] = regexp.QuoteMeta(pieces[i])
	}
	return regexp.MustCompile("(?s)^" + strings.Join(pieces, ".*") + "$")
}

func TestAPatternFitsWhatTheSameRegularExpressionFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, s := drawn(t, "pattern", "ab.*"), drawn(t, "text", "ab.*")
		p := NewPattern(text)
		if got, want := p.Fits(s), asRegexp(text).MatchString(s); got != want {
			t.Fatalf("%q fits %q: got %v, want %v", text, s, got, want)
		}
	})
}

func TestACoveringPatternFitsAllThatTheCoveredOneFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, fill := drawn(t, "a", "ab*"), drawn(t, "b", "ab*"), drawn(t, "fill", "abx")
		p, q := NewPattern(a), NewPattern(b)
		s := strings.ReplaceAll(b, "*", fill)
		if p.Covers(q) && !p.Fits(s) {
			t.Fatalf("%q is said to cover %q and does not fit %q", a, b, s)
		}
		// What no literal piece of a has can only be taken by a star.
		if s = strings.ReplaceAll(b, "*", "#"); !p.Covers(q) && p.Fits(s) {
			t.Fatalf("%q is said not to cover %q and fits %q", a, b, s)
		}
	})
}

func TestNoPatternsFitAll(t *testing.T) {
	var all Patterns
	if !all.Fits("anything") || !all.Covers(Patterns{NewPattern("a*")}) || (Patterns{NewPattern("a*")}).Covers(all) {
		t.Error("a rule that leaves a part of the key out does not hold for all")
	}
}

func TestOnlyPatternsWithoutAStarSayAllThatTheyFit(t *testing.T) {
	for _, c := range []struct {
		ps   Patterns
		want string
		ok   bool
	}{
		{Patterns{NewPattern("a"), NewPattern("b")}, "a,b", true},
		{Patterns{NewPattern("a"), NewPattern("b*")}, "", false},
		{nil, "", false},
	} {
		if all, ok := c.ps.Exact(); strings.Join(all, ",") != c.want || ok != c.ok {
			t.Errorf("%v fit exactly %v, %v; want %q, %v", c.ps, all, ok, c.want, c.ok)
		}
	}
}
