package doccheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// claims are the lines that SECURITY.md has at the least.
const claims = 14

var claimLine = regexp.MustCompile(`^\| [^|]+ \| [^|]+ \| [^|]+ \| ([^|]+) \|$`)

// claimsOf gives the tests of each line of the table of who can do what.
func claimsOf(page string) ([][]string, error) {
	var all [][]string
	for _, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who |") || strings.HasPrefix(line, "| ---") {
			continue
		}
		m := claimLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("not a line of four columns: %s", line)
		}
		var held []string
		for _, ref := range quoted.FindAllStringSubmatch(m[1], -1) {
			if !aTest.MatchString(ref[1]) {
				return nil, fmt.Errorf("%q is no test: %s", ref[1], line)
			}
			held = append(held, ref[1])
		}
		if len(held) == 0 {
			return nil, fmt.Errorf("it names no test: %s", line)
		}
		all = append(all, held)
	}
	if len(all) < claims {
		return nil, fmt.Errorf("the page has %d lines, want %d at the least", len(all), claims)
	}
	return all, nil
}

func TestEveryLineOfTheThreatModelNamesTestsThatAreThere(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := claimsOf(string(page))
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]*goFiles{}
	for _, held := range all {
		for _, ref := range held {
			dir := folderOf(ref)
			if packages[dir] == nil {
				packages[dir] = mustRead(t, filepath.Join(root, dir))
			}
			if err := packages[dir].has(ref); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAThreatModelThatIsNotHeldIsRefused(t *testing.T) {
	good := strings.Repeat("| a | b | c | `a.TestB` |\n", claims)
	if _, err := claimsOf("| who | can | cannot | held by |\n| --- |\n" + good); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]string{
		"a line too few":         strings.Repeat("| a | b | c | `a.TestB` |\n", claims-1),
		"a line with no test":    good + "| a | b | c | nothing |\n",
		"a line of two columns":  good + "| a | `a.TestB` |\n",
		"what is no test's name": good + "| a | b | c | `a.Test B` |\n",
	} {
		if _, err := claimsOf(page); err == nil {
			t.Errorf("%s: the page is taken", name)
		}
	}
}
