package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// room is a row of the table. Packages of this module are written as the go
// command takes them: "." is the root, "./server" one package, "./server/..."
// that package and all below it. Third-party packages are written by import
// path, with the same dots.
type room struct {
	path string
	// may lists what else of this module its packages may import. Packages of one
	// room may import one another.
	may []string
	// third lists the third-party packages that they may import.
	third []string
	// never lists what they must not reach through any chain of imports. may and
	// third bind direct imports alone.
	never []string
	// tests says that the room serves tests, and so may import testing.
	tests bool
}

// anything, in a room's third, leaves its third-party imports open.
const anything = "..."

// A pkg is what the go command knows of a package, its test files aside.
type pkg struct {
	// imports are keys of the graph that the package is in.
	imports []string
	own     bool // of this module
	std     bool // of the standard library
}

// judge gives one line for each import of graph that rooms does not allow, in
// the order of the packages.
func judge(rooms []room, graph map[string]pkg) []string {
	var broken []string
	for _, path := range slices.Sorted(maps.Keys(graph)) {
		if !graph[path].own {
			continue
		}
		r := roomOf(rooms, path)
		if r == nil {
			broken = append(broken, fmt.Sprintf("%s is in no room: add it to the table in internal/archtest/arrows_test.go, with what it may import", path))
			continue
		}
		for _, imp := range graph[path].imports {
			if fault := r.refuses(rooms, imp, graph[imp]); fault != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", path, imp, fault))
			}
		}
		broken = append(broken, r.reaches(rooms, path, graph)...)
	}
	return broken
}

// refuses says what is wrong with a direct import of imp, or nothing.
func (r *room) refuses(rooms []room, imp string, p pkg) string {
	switch {
	case p.std:
		if !r.tests && matches("testing/...", imp) {
			return fmt.Sprintf("testing is for test files and for rooms that serve tests, and %s is none: move what needs it into a _test.go file", r.path)
		}
	case p.own:
		if to := roomOf(rooms, imp); to != nil && to.path != r.path && !matchesAny(r.may, imp) {
			return fmt.Sprintf("of this module the room %s may import %s: %s", r.path, listed(r.may), whatToDo)
		}
	case !matchesAny(r.third, imp):
		return fmt.Sprintf("of third-party packages the room %s may import %s: %s", r.path, listed(r.third), whatToDo)
	}
	return ""
}

const whatToDo = "move what needs it into a room that may, or, where the arrow is meant, change the table in internal/archtest/arrows_test.go"

// reaches gives, for each pattern that the room must never reach, the shortest
// chain of imports from path to a package that fits it. A chain that begins with
// a package under the same rule is left to that package.
func (r *room) reaches(rooms []room, path string, graph map[string]pkg) []string {
	var broken []string
	for _, pattern := range r.never {
		chain := chainTo(pattern, path, graph)
		if chain == nil {
			continue
		}
		if next := roomOf(rooms, chain[1]); next != nil && len(chain) > 2 && slices.Contains(next.never, pattern) {
			continue
		}
		broken = append(broken, fmt.Sprintf("%s: the room %s must never reach %s. Cut the chain: the packages of the room are linked where that has no place",
			strings.Join(chain, " -> "), r.path, pattern))
	}
	return broken
}

// chainTo searches graph, breadth first, from path to a package that fits pattern.
func chainTo(pattern, path string, graph map[string]pkg) []string {
	from := map[string]string{path: ""}
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		for _, imp := range graph[queue[0]].imports {
			if _, seen := from[imp]; seen || graph[imp].std {
				continue
			}
			from[imp] = queue[0]
			if !matches(pattern, imp) {
				queue = append(queue, imp)
				continue
			}
			var chain []string
			for at := imp; at != ""; at = from[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain
		}
	}
	return nil
}

// roomOf gives the room with the longest path that fits, nil for none. Of "./a"
// and "./a/..." the first is the closer.
func roomOf(rooms []room, path string) *room {
	var closest *room
	for i := range rooms {
		r := &rooms[i]
		if r.path == path {
			return r
		}
		if matches(r.path, path) && (closest == nil || len(r.path) > len(closest.path)) {
			closest = r
		}
	}
	return closest
}

func matches(pattern, path string) bool {
	if pattern == anything {
		return true
	}
	tree, ok := strings.CutSuffix(pattern, "/...")
	return path == tree || ok && strings.HasPrefix(path, tree+"/")
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, path) })
}

func listed(patterns []string) string {
	if len(patterns) == 0 {
		return "nothing"
	}
	return "only [" + strings.Join(patterns, " ") + "]"
}
