package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v4"

	"github.com/oncekeeper/oncekeeper/server/auth"
	"github.com/oncekeeper/oncekeeper/server/policy"
)

// node is a part of a YAML document.
type node = map[string]any

// documents gives what a file of deploy holds.
func documents(t *testing.T, name string) (all []node) {
	t.Helper()
	for from := yaml.NewDecoder(bytes.NewReader(deployFile(t, name))); ; {
		var doc node
		if err := from.Decode(&doc); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("deploy/%s: %v", name, err)
		}
		all = append(all, doc)
	}
}

// in gives what is under a path of names and places in lists; nil where nothing is.
func in(at any, path ...any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			of, _ := at.(node)
			at = of[key]
		case int:
			of, _ := at.([]any)
			if key >= len(of) {
				return nil
			}
			at = of[key]
		}
	}
	return at
}

func list(at any, path ...any) []any {
	all, _ := in(at, path...).([]any)
	return all
}

// deployFiles gives the names of all files of deploy, with a slash between.
func deployFiles(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(deployDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(deployDir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil || len(names) < 15 {
		t.Fatalf("deploy has %q: %v", names, err)
	}
	return names
}

func TestEveryYAMLFileOfDeployCanBeRead(t *testing.T) {
	for _, name := range deployFiles(t) {
		if filepath.Ext(name) == ".yaml" && len(documents(t, name)) == 0 {
			t.Errorf("deploy/%s holds nothing", name)
		}
	}
}

var variable = regexp.MustCompile(`\bONCEKEEPER_[A-Z_]+\b`)

func TestEveryVariableInDeployIsOneOfTheCommand(t *testing.T) {
	parser, err := kong.New(&cli{}, commandLine()...)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{tokenVariable: true}
	for _, leaf := range parser.Model.Leaves(false) {
		for _, flags := range leaf.AllFlags(false) {
			for _, flag := range flags {
				for _, env := range flag.Envs {
					known[env] = true
				}
			}
		}
	}
	for _, name := range deployFiles(t) {
		for _, found := range variable.FindAllString(string(deployFile(t, name)), -1) {
			if !known[found] {
				t.Errorf("deploy/%s has %s, which no command reads", name, found)
			}
		}
	}
}

func TestThePolicyAndThePrincipalsOfTheManifestsAreTaken(t *testing.T) {
	if _, err := policy.Parse("policy.yaml", deployFile(t, "kubernetes/base/policy.yaml")); err != nil {
		t.Error(err)
	}
	if _, err := auth.Parse("principals.yaml", deployFile(t, "kubernetes/base/principals.yaml")); err != nil {
		t.Error(err)
	}
}

func TestAPasswordComesFromTheFileThatTheAddressNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pgpass")
	for host, store := range map[string]string{
		"postgres":    ofCompose(t).env["ONCEKEEPER_STORE"],
		"db.internal": ofSystemd(t, "systemd/oncekeeper.service", "systemd/postgres.conf").env["ONCEKEEPER_STORE"],
	} {
		if err := os.WriteFile(file, []byte(host+":5432:oncekeeper:oncekeeper:"+password), 0o600); err != nil {
			t.Fatal(err)
		}
		address, _, is := strings.Cut(store, "passfile=")
		_, after, _ := strings.Cut(store[len(address):], "pgpass")
		cfg, err := pgx.ParseConfig(address + "passfile=" + file + after)
		if err != nil || !is || cfg.Host != host || cfg.Password != password {
			t.Errorf("by %s the password is %q (%v), want that of its file", store, cfg.Password, err)
		}
	}
}

func TestTheProbesOfTheManifestsAreAnswered(t *testing.T) {
	_, log := serving(t, "--store", "memory:", "--http", "127.0.0.1:0")
	port := log.await(t, "probes and metrics")["http"].(string)
	for _, d := range ofKubernetes(t) {
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			path, is := in(d.container, probe, "httpGet", "path").(string)
			if !is || in(d.container, probe, "httpGet", "port") != "http" {
				t.Errorf("%s has no %s on the port http", d.where, probe)
				continue
			}
			if code, _ := fetched(t, port, path); code != http.StatusOK {
				t.Errorf("%s: the path of the %s, %s, answers %d", d.where, probe, path, code)
			}
		}
		if path := in(d.container, "livenessProbe", "httpGet", "path"); path == "/readyz" {
			t.Errorf("%s is restarted when its database is away", d.where)
		}
	}
}

func TestNothingInDeployMayMoreThanItNeeds(t *testing.T) {
	for _, d := range ofKubernetes(t) {
		pod := in(d.pod, "securityContext")
		if in(pod, "runAsNonRoot") != true || in(pod, "runAsUser") != 65532 || in(pod, "seccompProfile", "type") != "RuntimeDefault" || in(d.pod, "automountServiceAccountToken") != false {
			t.Errorf("%s: its pod has %v", d.where, pod)
		}
		for _, c := range append(list(d.pod, "initContainers"), list(d.pod, "containers")...) {
			s := in(c, "securityContext")
			if in(s, "allowPrivilegeEscalation") != false || in(s, "readOnlyRootFilesystem") != true || fmt.Sprint(in(s, "capabilities", "drop")) != "[ALL]" || in(c, "resources", "limits", "memory") == nil {
				t.Errorf("%s: the container %v has %v", d.where, in(c, "name"), s)
			}
		}
	}
	services, _ := in(documents(t, "compose.yaml")[0], "services").(node)
	for name, s := range services {
		if in(s, "read_only") != true || fmt.Sprint(in(s, "cap_drop")) != "[ALL]" || fmt.Sprint(in(s, "security_opt")) != "[no-new-privileges:true]" {
			t.Errorf("compose.yaml: %s may do more than it needs", name)
		}
		for _, port := range list(s, "ports") {
			if !strings.HasPrefix(port.(string), "127.0.0.1:") {
				t.Errorf("compose.yaml: %s is reached from elsewhere, at %s", name, port)
			}
		}
	}
}

func TestTheImageIsBuiltFromAllThatGitHas(t *testing.T) {
	ignored := map[string]bool{}
	for _, of := range []struct{ file, under string }{{".gitignore", ""}, {"deploy/.gitignore", "/deploy"}} {
		for _, line := range linesOf(t, of.file) {
			ignored[of.under+line] = true
		}
	}
	for _, line := range linesOf(t, ".dockerignore") {
		if !ignored[line] {
			t.Errorf(".dockerignore has %s, which git has: the version would be +dirty", line)
		}
	}
	if !slices.Contains(linesOf(t, ".dockerignore"), "/deploy/secrets/") {
		t.Error(".dockerignore lets secrets into the image's build")
	}
}

// linesOf gives those of a file at the module's root that say something.
func linesOf(t *testing.T, name string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}
