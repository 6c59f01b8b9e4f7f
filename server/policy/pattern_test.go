package policy

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
		p := newPattern(text)
		if got, want := p.fits(s), asRegexp(text).MatchString(s); got != want {
			t.Fatalf("%q fits %q: got %v, want %v", text, s, got, want)
		}
	})
}

func TestACoveringPatternFitsAllThatTheCoveredOneFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, fill := drawn(t, "a", "ab*"), drawn(t, "b", "ab*"), drawn(t, "fill", "abx")
		p, q := newPattern(a), newPattern(b)
		s := strings.ReplaceAll(b, "*", fill)
		if p.covers(q) && !p.fits(s) {
			t.Fatalf("%q is said to cover %q and does not fit %q", a, b, s)
		}
		// What no literal piece of a has can only be taken by a star.
		if s = strings.ReplaceAll(b, "*", "#"); !p.covers(q) && p.fits(s) {
			t.Fatalf("%q is said not to cover %q and fits %q", a, b, s)
		}
	})
}

func TestNoPatternsFitAll(t *testing.T) {
	var all patterns
	if !all.fits("anything") || !all.covers(patterns{newPattern("a*")}) || (patterns{newPattern("a*")}).covers(all) {
		t.Error("a rule that leaves a part of the key out does not hold for all")
	}
}
