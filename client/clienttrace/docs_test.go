package clienttrace_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/oncekeeper/oncekeeper/client/clienttrace"
)

func TestThePageOfTracesHasEveryAttribute(t *testing.T) {
	page, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range clienttrace.Attributes() {
		if row := fmt.Sprintf("| `%s` | %s |\n", a.Name, a.Help); !strings.Contains(string(page), row) {
			t.Errorf("docs/tracing.md lacks\n%s", row)
		}
	}
}

// described is every attribute that a span or a link may have.
func described() map[string]bool {
	all := map[string]bool{}
	for _, a := range clienttrace.Attributes() {
		all[a.Name] = true
	}
	return all
}
