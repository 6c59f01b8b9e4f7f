package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// query is what is to be known of an expression of PromQL here: which series it reads,
// and which labels it groups or joins by. That it can be evaluated is for promtool to
// say: make deploy-check.
type query struct {
	selections []selection
	labels     []string
}

// selection is one selector of series.
type selection struct {
	metric   string
	matchers []matcher
}

type matcher struct{ label, op, value string }

// The words of PromQL that are neither metrics nor functions: before a list of labels,
// and between operands.
var (
	beforeLabels    = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	betweenOperands = []string{"and", "or", "unless", "offset", "bool"}
)

var (
	promToken = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9][0-9a-zA-Z.]*|=~|!~|!=|==|>=|<=|[-+*/%^<>=(){}\[\],])`)
	promWord  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
)

// promTokens cuts an expression.
func promTokens(expr string) (tokens []string, err error) {
	for rest := strings.TrimSpace(expr); rest != ""; rest = strings.TrimSpace(rest) {
		token := promToken.FindString(rest)
		if token == "" {
			return nil, fmt.Errorf("%q is not understood from %q on", expr, rest)
		}
		tokens, rest = append(tokens, token), rest[len(token):]
	}
	return tokens, nil
}

// readQuery reads an expression.
func readQuery(expr string) (q query, err error) {
	tokens, err := promTokens(expr)
	if err != nil {
		return q, err
	}
	next := func(i int) string {
		if i+1 < len(tokens) {
			return tokens[i+1]
		}
		return ""
	}
	for i := 0; i < len(tokens); i++ {
		switch token := tokens[i]; {
		case token == "{":
			return q, fmt.Errorf("%q has a selector that names no metric", expr)
		case !promWord.MatchString(token), slices.Contains(betweenOperands, token):
		case slices.Contains(beforeLabels, token):
			for i += 2; i < len(tokens) && tokens[i] != ")"; i++ {
				if tokens[i] != "," {
					q.labels = append(q.labels, tokens[i])
				}
			}
		case next(i) == "(" || slices.Contains(beforeLabels, next(i)): // a function, an aggregation
		default:
			s := selection{metric: token}
			if next(i) == "{" {
				if s.matchers, i, err = readMatchers(tokens, i+2); err != nil {
					return q, fmt.Errorf("%q: %w", expr, err)
				}
			}
			q.selections = append(q.selections, s)
		}
	}
	return q, nil
}

// readMatchers reads from the token behind the brace, and gives where the other one is.
func readMatchers(tokens []string, i int) (all []matcher, end int, err error) {
	for ; i+2 < len(tokens) && tokens[i] != "}"; i += 3 {
		m := matcher{label: tokens[i], op: tokens[i+1], value: strings.Trim(tokens[i+2], `"`)}
		if !promWord.MatchString(m.label) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.op) || !strings.HasPrefix(tokens[i+2], `"`) {
			return nil, i, fmt.Errorf("%s%s%s is no matcher", tokens[i], tokens[i+1], tokens[i+2])
		}
		all = append(all, m)
		if i+3 < len(tokens) && tokens[i+3] == "," {
			i++
		}
	}
	if i >= len(tokens) || tokens[i] != "}" {
		return nil, i, fmt.Errorf("a brace is not closed")
	}
	return all, i, nil
}

func TestTheReaderOfPromQLFindsMetricsMatchersAndLabels(t *testing.T) {
	for expr, want := range map[string]string{
		`up`:                                 "[{up []}] []",
		`sum by (by, job) (rate(a:b[5m]))`:   "[{a:b []}] [by job]",
		`sum(rate(a{x="1"}[5m])) by (x) > 2`: "[{a [{x = 1}]}] [x]",
		`a{x=~"1|2", y!="by"} / on (x) group_left (z) b offset 10m`:  "[{a [{x =~ 1|2} {y != by}]} {b []}] [x z]",
		`(a > 0) or time() - b{} unless c == bool 1`:                 "[{a []} {b []} {c []}] []",
		`histogram_quantile(0.99, sum by (le) (rate(h_bucket[$x])))`: "refused",
		`{x="1"}`:     "refused",
		`a{x="1"`:     "refused",
		`a{x ~ "1"}`:  "refused",
		`a{x="1"} # `: "refused",
		`a{"x"="1"}`:  "refused",
	} {
		q, err := readQuery(expr)
		got := fmt.Sprint(q.selections, " ", q.labels)
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s is read as %s (%v), want %s", expr, got, err, want)
		}
	}
}
