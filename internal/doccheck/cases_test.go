// Package doccheck holds what the pages in docs say of the code against the code.
// It consists of tests alone.
package doccheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the module's, from here.
const root = "../.."

// cases are the rows that docs/cases.md must have.
const cases = 27

func TestEveryCaseNamesTestsThatAreThere(t *testing.T) {
	packages := map[string]*goFiles{}
	for _, row := range casesPage(t) {
		for _, ref := range row.held {
			dir := folderOf(ref)
			if packages[dir] == nil {
				packages[dir] = mustRead(t, filepath.Join(root, dir))
			}
			if err := packages[dir].has(ref); err != nil {
				t.Errorf("case %d: %v", row.number, err)
			}
		}
	}
}

func TestATestThatSaysItsCaseIsInItsRow(t *testing.T) {
	rows, said := casesPage(t), 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && strings.HasPrefix(name, ".") || name == "testdata" {
			return filepath.SkipDir
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for name, numbers := range mustRead(t, path).says {
			for _, n := range numbers {
				said++
				ref := filepath.ToSlash(dir) + "." + name
				if n < 1 || n > cases || !slices.Contains(rows[n-1].held, ref) {
					t.Errorf("%s says that it is case %d, and docs/cases.md does not name it there", ref, n)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if said < 10 {
		t.Errorf("%d tests say their case, want at least 10: are the comments read?", said)
	}
}

func TestAPageThatIsNotTrueIsRefused(t *testing.T) {
	page := func(last string) string {
		var b strings.Builder
		for n := range cases - 1 {
			fmt.Fprintf(&b, "| %d | wrong | right | `a.TestB` |\n", n+1)
		}
		return b.String() + last
	}
	if _, err := rowsOf(page("| 27 | wrong | right | `a.TestB`<br>`a/b: a rule of it` |")); err != nil {
		t.Fatal(err)
	}
	for name, last := range map[string]string{
		"a case left out":        "",
		"a case twice":           "| 26 | wrong | right | `a.TestB` |",
		"no test":                "| 27 | wrong | right | see there |",
		"no column":              "| 27 | wrong | `a.TestB` |",
		"what is no test's name": "| 27 | wrong | right | `a.Test B` |",
	} {
		if _, err := rowsOf(page(last)); err == nil {
			t.Errorf("%s: the page is taken", name)
		}
	}
	here := mustRead(t, ".")
	for ref, there := range map[string]bool{
		"here.TestAPageThatIsNotTrueIsRefused": true, "here: a case left out": true,
		"here.TestNobodyWrote": false, "here: a rule " + "that nobody wrote": false,
	} {
		if err := here.has(ref); (err == nil) != there {
			t.Errorf("%s: %v, want it found: %t", ref, err, there)
		}
	}
}

func casesPage(t *testing.T) []row {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := rowsOf(string(page))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func mustRead(t *testing.T, dir string) *goFiles {
	t.Helper()
	found, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func folderOf(ref string) string { return ref[:strings.IndexAny(ref, ".:")] }

// row is one case of the page.
type row struct {
	number int
	// held are its tests: "dir.TestName", or "dir: a string that stands in that
	// package's Go files".
	held []string
}

var (
	rowLine = regexp.MustCompile(`^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	quoted  = regexp.MustCompile("`([^`]*)`")
	aTest   = regexp.MustCompile(`^[a-z0-9/]+\.(Test|Example|Fuzz)[A-Za-z0-9]+$`)
	aRule   = regexp.MustCompile(`^[a-z0-9/]+: .{8,}$`)
)

// rowsOf reads the table, which must have every case once and in order, each with
// what is wrong, what is right, and tests.
func rowsOf(page string) ([]row, error) {
	var rows []row
	for _, line := range strings.Split(page, "\n") {
		m := rowLine.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| # |") && !strings.HasPrefix(line, "| ---") {
				return nil, fmt.Errorf("not a row of four columns: %s", line)
			}
			continue
		}
		r := row{}
		if r.number, _ = strconv.Atoi(m[1]); r.number != len(rows)+1 {
			return nil, fmt.Errorf("case %d stands behind case %d", r.number, len(rows))
		}
		for _, ref := range quoted.FindAllStringSubmatch(m[4], -1) {
			if !aTest.MatchString(ref[1]) && !aRule.MatchString(ref[1]) {
				return nil, fmt.Errorf("case %d: %q is neither dir.TestName nor dir: rule", r.number, ref[1])
			}
			r.held = append(r.held, ref[1])
		}
		if len(r.held) == 0 {
			return nil, fmt.Errorf("case %d names no test", r.number)
		}
		rows = append(rows, r)
	}
	if len(rows) != cases {
		return nil, fmt.Errorf("the page has %d cases, want %d", len(rows), cases)
	}
	return rows, nil
}

// goFiles is what a folder's Go files hold that a page may name.
type goFiles struct {
	funcs, literals map[string]bool
	// says are the cases that tests' comments name.
	says map[string][]int
}

var aCase = regexp.MustCompile(`(?:Case|and) (\d+)`)

func read(dir string) (*goFiles, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	found := &goFiles{funcs: map[string]bool{}, literals: map[string]bool{}, says: map[string][]int{}}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(file, "_test.go") {
			found.addFuncs(f)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					found.literals[strings.TrimSpace(text)] = true
				}
			}
			return true
		})
	}
	return found, nil
}

func (g *goFiles) addFuncs(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil {
			continue
		}
		g.funcs[fn.Name.Name] = true
		if doc := fn.Doc.Text(); strings.HasPrefix(fn.Name.Name, "Test") && strings.HasPrefix(doc, "Case ") {
			for _, m := range aCase.FindAllStringSubmatch(doc, -1) {
				n, _ := strconv.Atoi(m[1])
				g.says[fn.Name.Name] = append(g.says[fn.Name.Name], n)
			}
		}
	}
}

// has gives an error unless ref names something of this folder.
func (g *goFiles) has(ref string) error {
	if aTest.MatchString(ref) {
		if _, name, _ := strings.Cut(ref, "."); !g.funcs[name] {
			return fmt.Errorf("there is no test %s", ref)
		}
		return nil
	}
	if _, rule, _ := strings.Cut(ref, ": "); !g.literals[rule] {
		return fmt.Errorf("no Go file of that folder holds the name of %q", ref)
	}
	return nil
}
