package archtest

import (
	"strings"
	"testing"
)

// small is a table with one row of each kind, and planted is a module that obeys it.
var small = []room{
	{path: "."},
	{path: "./rules", may: []string{"."}},
	{path: "./server/...", may: []string{".", "./rules"}, third: []string{anything}, never: []string{"./store/...", "example.com/driver/..."}},
	{path: "./store/...", may: []string{"."}, third: []string{"example.com/driver/..."}},
	{path: "./store/storetest", may: []string{"./store/..."}, tests: true},
	{path: "./cmd/...", may: []string{"./..."}, third: []string{anything}},
}

func planted() map[string]pkg {
	return map[string]pkg{
		".":                     {own: true, imports: []string{"fmt"}},
		"./rules":               {own: true, imports: []string{"."}},
		"./server":              {own: true, imports: []string{"./rules", "./server/policy", "example.com/log"}},
		"./server/policy":       {own: true, imports: []string{"."}},
		"./store":               {own: true, imports: []string{".", "example.com/driver/v2"}},
		"./store/storetest":     {own: true, imports: []string{"./store", "testing"}},
		"./cmd/tool":            {own: true, imports: []string{"./server", "./store"}},
		"fmt":                   {std: true},
		"testing":               {std: true, imports: []string{"fmt"}},
		"example.com/log":       {},
		"example.com/logdriver": {imports: []string{"example.com/driver/v2"}},
		"example.com/driver/v2": {},
	}
}

func TestAModuleThatFollowsTheArrowsIsLeftAlone(t *testing.T) {
	if broken := judge(small, planted()); len(broken) > 0 {
		t.Errorf("want no complaint, got:\n%s", strings.Join(broken, "\n"))
	}
}

func TestAnImportAgainstAnArrowIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string   // the package that gets one import more
		imp  string   // the import
		want []string // what each complaint says, in order
	}{
		"a room that may import nothing": {
			"./rules", "./server", []string{"./rules imports ./server: of this module the room ./rules may import only [.]: move"},
		},
		"upwards from the root": {
			".", "./rules", []string{". imports ./rules: of this module the room . may import nothing: move"},
		},
		"a third-party package where none may be": {
			"./rules", "example.com/log", []string{"./rules imports example.com/log: of third-party packages the room ./rules may import nothing: move"},
		},
		"another third-party package than those listed": {
			"./store", "example.com/log", []string{"./store imports example.com/log: of third-party packages the room ./store/... may import only [example.com/driver/...]: move"},
		},
		"a name that only begins like one that is listed": {
			"./store", "example.com/driverless", []string{"./store imports example.com/driverless: of third-party"},
		},
		"a forbidden package where third-party packages are open": {
			"./server", "example.com/driver/v2", []string{"./server -> example.com/driver/v2: the room ./server/... must never reach example.com/driver/..."},
		},
		"a forbidden package behind another, told once though two packages reach it": {
			"./server/policy", "example.com/logdriver",
			[]string{"./server/policy -> example.com/logdriver -> example.com/driver/v2: the room ./server/... must never reach example.com/driver/..."},
		},
		"testing, outside tests": {
			"./server", "testing", []string{"./server imports testing: testing is for test files"},
		},
		"a package below testing": {
			"./rules", "testing/quick", []string{"./rules imports testing/quick: testing is for test files"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			graph := planted()
			graph["testing/quick"] = pkg{std: true}
			p := graph[tc.in]
			p.imports = append(p.imports, tc.imp)
			graph[tc.in] = p
			wantComplaints(t, judge(small, graph), tc.want...)
		})
	}
}

func TestAPackageInNoRoomIsNamedWithWhatToDo(t *testing.T) {
	graph := planted()
	graph["./attic"] = pkg{own: true}
	wantComplaints(t, judge(small, graph), "./attic is in no room: add it to the table in internal/archtest/arrows_test.go")
}

func TestAPackageBelongsToTheClosestRoom(t *testing.T) {
	rooms := []room{{path: "./a/..."}, {path: "./a/b/..."}, {path: "./a/b"}}
	for path, want := range map[string]string{
		"./a": "./a/...", "./a/x": "./a/...", "./a/bb": "./a/...", "./a/b": "./a/b", "./a/b/c": "./a/b/...",
	} {
		if got := roomOf(rooms, path); got == nil || got.path != want {
			t.Errorf("%s: want the room %s, got %v", path, want, got)
		}
	}
	if got := roomOf(rooms, "./ab"); got != nil {
		t.Errorf("./ab: want no room, got %s", got.path)
	}
}

func wantComplaints(t *testing.T, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("want complaints that begin with:\n%s\ngot:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
