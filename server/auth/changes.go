package auth

import (
	"reflect"
	"slices"
	"strings"
)

// maxTold bounds a line of log.
const maxTold = 50

// Since says, for a log, how s differs from before, by the names of principals.
func (s *Set) Since(before *Set) string {
	then := map[string]*Principal{}
	for _, p := range before.all {
		then[p.name] = p
	}
	var all []string
	for _, p := range s.all {
		was, known := then[p.name]
		delete(then, p.name)
		switch {
		case !known:
			all = append(all, p.name+" came")
		case !same(was, p):
			all = append(all, p.name+" changed")
		}
	}
	for name := range then {
		all = append(all, name+" went")
	}
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	if len(all) > maxTold {
		all = append(all[:maxTold], "and more")
	}
	return strings.Join(all, ", ")
}

// same: wherever in the file they are.
func same(a, b *Principal) bool {
	x, y := *a, *b
	x.line, y.line = 0, 0
	return reflect.DeepEqual(x, y)
}
