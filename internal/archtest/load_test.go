package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// load gives every package of this module and all that they import, as the go
// command sees them on this platform. Packages of tests alone are left out. One
// that does not compile is in: that is for its own tests to say.
func load(t *testing.T) map[string]pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	watch(t, root)

	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps",
		"-json=ImportPath,Standard,Module,Imports,GoFiles,CgoFiles", "./...")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", list, err, &stderr)
	}

	type listed struct {
		ImportPath        string
		Standard          bool
		Module            *struct{ Path string }
		Imports           []string
		GoFiles, CgoFiles []string
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v: its answer is no JSON: %v", list, err)
		}
		all = append(all, l)
	}

	graph := make(map[string]pkg, len(all))
	for _, l := range all {
		own := l.Module != nil && l.Module.Path == module
		if own && len(l.GoFiles)+len(l.CgoFiles) == 0 {
			continue
		}
		p := pkg{own: own, std: l.Standard}
		for _, imp := range l.Imports {
			p.imports = append(p.imports, short(imp))
		}
		graph[short(l.ImportPath)] = p
	}
	if !graph["."].own {
		t.Fatalf("%v: the root package of %s is missing from its answer", list, module)
	}
	return graph
}

const module = "github.com/oncekeeper/oncekeeper"

// short writes a package of this module as the table does.
func short(importPath string) string {
	if rest, ok := strings.CutPrefix(importPath, module); ok && (rest == "" || rest[0] == '/') {
		return "." + rest
	}
	return importPath
}

// watch looks at every folder with code. go test keeps a passing result until a
// file that the test itself looked at changes, and it cannot see what the go
// command looks at in the test's behalf.
func watch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == root {
			return err
		}
		if name := entry.Name(); name == "bin" || name == "testdata" || name == "node_modules" || name[0] == '.' || name[0] == '_' {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("looking at the module's folders: %v", err)
	}
}
