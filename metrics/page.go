package metrics

import (
	"fmt"
	"strings"
)

// Page gives the sections as Markdown.
func Page(sections []Section) string {
	var b strings.Builder
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
		if s.Text != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Text)
		}
		if len(s.Metrics) == 0 {
			continue
		}
		b.WriteString("| metric | what it says | labels | when to worry |\n| --- | --- | --- | --- |\n")
		for _, m := range s.Metrics {
			fmt.Fprintf(&b, "| `%s` (%s) | %s. | %s | %s |\n", m.Name, m.Type, m.Help, labels(m.Labels), m.Worry)
		}
	}
	return b.String()
}

func labels(all []Label) string {
	var told []string
	for _, l := range all {
		if l.Means != "" {
			told = append(told, fmt.Sprintf("`%s`: %s", l.Name, l.Means))
			continue
		}
		told = append(told, fmt.Sprintf("`%s`: %s", l.Name, strings.Join(l.Values, ", ")))
	}
	return strings.Join(told, "; ")
}
