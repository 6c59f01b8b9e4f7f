package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// deployed is a server as a file of deploy starts it.
type deployed struct {
	where string
	args  []string
	env   map[string]string
	// grace is how long it has from SIGTERM until it is killed.
	grace time.Duration

	// Of Kubernetes.
	pod, container any
}

func strs(all []any) (texts []string) {
	for _, one := range all {
		texts = append(texts, fmt.Sprint(one))
	}
	return texts
}

func seconds(t *testing.T, where, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return d
}

// ofCompose gives what compose.yaml starts, or with files over it, those too.
func ofCompose(t *testing.T, over ...string) deployed {
	t.Helper()
	d := deployed{where: "compose.yaml", env: map[string]string{}}
	for _, file := range append([]string{"compose.yaml"}, over...) {
		s := in(documents(t, file)[0], "services", "oncekeeper")
		env, _ := in(s, "environment").(node)
		for name, value := range env {
			d.env[name] = fmt.Sprint(value)
		}
		if args := list(s, "command"); args != nil {
			d.args = strs(args)
			d.grace = seconds(t, file, fmt.Sprint(in(s, "stop_grace_period")))
		}
		d.where = file
	}
	return d
}

// ofKubernetes gives what the manifests start.
func ofKubernetes(t *testing.T) (all []deployed) {
	t.Helper()
	for _, file := range []string{"kubernetes/postgres/deployment.yaml", "kubernetes/embedded/statefulset.yaml"} {
		pod := in(documents(t, file)[0], "spec", "template", "spec")
		c := in(pod, "containers", 0)
		d := deployed{where: file, args: strs(list(c, "args")), env: map[string]string{}, pod: pod, container: c}
		for _, v := range list(c, "env") {
			d.env[in(v, "name").(string)] = "postgres://db/oncekeeper" // of a secret
			if value, is := in(v, "value").(string); is {
				d.env[in(v, "name").(string)] = value
			}
		}
		grace, _ := in(pod, "terminationGracePeriodSeconds").(int)
		before, _ := in(c, "lifecycle", "preStop", "sleep", "seconds").(int)
		d.grace = time.Duration(grace-before) * time.Second
		all = append(all, d)
	}
	return all
}

var setting = regexp.MustCompile(`(?m)^Environment=(\w+)=(.*)$`)

// ofSystemd gives what a unit starts, with the files over it.
func ofSystemd(t *testing.T, files ...string) deployed {
	t.Helper()
	d := deployed{where: files[len(files)-1], env: map[string]string{}}
	specifiers := strings.NewReplacer("%S", "/var/lib", "%d", "/run/credentials/oncekeeper.service")
	for _, file := range files {
		text := string(deployFile(t, file))
		for _, v := range setting.FindAllStringSubmatch(text, -1) {
			d.env[v[1]] = specifiers.Replace(v[2])
		}
		for line := range strings.Lines(text) {
			if command, is := strings.CutPrefix(line, "ExecStart=/usr/local/bin/oncekeeper "); is {
				d.args = strings.Fields(command)
			}
			if grace, is := strings.CutPrefix(line, "TimeoutStopSec="); is {
				d.grace = seconds(t, file, strings.TrimSpace(grace))
			}
		}
	}
	return d
}

// ofImage gives what the image starts by itself; it has no say in when it is killed.
func ofImage(t *testing.T) deployed {
	t.Helper()
	d := deployed{where: "docker/Dockerfile", env: map[string]string{}, grace: time.Hour}
	for line := range strings.Lines(string(deployFile(t, "docker/Dockerfile"))) {
		if v, is := strings.CutPrefix(line, "ENV "); is {
			name, value, _ := strings.Cut(strings.TrimSpace(v), "=")
			d.env[name] = value
		}
		if args, is := strings.CutPrefix(line, "CMD "); is {
			if err := json.Unmarshal([]byte(args), &d.args); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d
}

func everyDeployed(t *testing.T) []deployed {
	return append(ofKubernetes(t), ofCompose(t), ofCompose(t, "compose.tls.yaml"), ofImage(t),
		ofSystemd(t, "systemd/oncekeeper.service"), ofSystemd(t, "systemd/oncekeeper.service", "systemd/postgres.conf"))
}

// parsed gives how the command reads its command line and variables. It refuses what
// it would not serve.
func parsed(t *testing.T, d deployed, args ...string) (c cli, err error) {
	t.Helper()
	for name, value := range d.env {
		t.Setenv(name, value)
	}
	parser, err := kong.New(&c, commandLine()...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return c, err
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestServeTakesWhatEveryFileOfDeployTellsIt(t *testing.T) {
	for _, d := range everyDeployed(t) {
		t.Run(d.where, func(t *testing.T) {
			if len(d.args) == 0 || d.args[0] != "serve" || d.env["ONCEKEEPER_STORE"] == "" {
				t.Fatalf("it starts %q with %v", d.args, d.env)
			}
			c, err := parsed(t, d, d.args...)
			if err != nil {
				t.Fatal(err)
			}
			if portOf(t, c.Serve.Listen) != "8460" || portOf(t, c.Serve.HTTP) != "8461" {
				t.Errorf("it listens on %s and %s, want the ports 8460 and 8461", c.Serve.Listen, c.Serve.HTTP)
			}
			// close waits for the store as long again.
			if need := 2 * c.Serve.Drain; d.grace < need+5*time.Second {
				t.Errorf("it is killed %v after SIGTERM, and may need %v", d.grace, need)
			}
		})
	}
}

func TestOffLoopbackWithoutTLSIsComposesAlone(t *testing.T) {
	for _, d := range everyDeployed(t) {
		if d.where == "compose.yaml" {
			continue
		}
		if d.env["ONCEKEEPER_INSECURE"] == "true" {
			t.Errorf("%s serves whoever comes", d.where)
		}
	}
}

func TestTheCommandsBesideServeAreTaken(t *testing.T) {
	for _, c := range list(ofKubernetes(t)[0].pod, "initContainers") {
		if _, err := parsed(t, ofKubernetes(t)[0], strs(list(c, "args"))...); err != nil {
			t.Errorf("the init container: %v", err)
		}
	}
	_, check, _ := strings.Cut(string(deployFile(t, "docker/Dockerfile")), "HEALTHCHECK ")
	_, check, _ = strings.Cut(check, "CMD ")
	check, _, _ = strings.Cut(check, "\n")
	var command []string
	if err := json.Unmarshal([]byte(check), &command); err != nil || command[0] != "/oncekeeper" {
		t.Fatalf("the health check is %q: %v", check, err)
	}
	for _, d := range []deployed{ofImage(t), ofCompose(t)} {
		if _, err := parsed(t, d, command[1:]...); err != nil {
			t.Errorf("the health check of %s: %v", d.where, err)
		}
	}
}

func TestPortsAndSelectorsOfTheManifestsMeet(t *testing.T) {
	want := fmt.Sprint(node{"app.kubernetes.io/name": "oncekeeper"})
	for _, d := range ofKubernetes(t) {
		doc := documents(t, d.where)[0]
		for _, path := range [][]any{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
			if got := fmt.Sprint(in(doc, path...)); got != want {
				t.Errorf("%s has %s at %v, want %s", d.where, got, path, want)
			}
		}
		ports := map[any]any{}
		for _, p := range list(d.container, "ports") {
			ports[in(p, "name")] = in(p, "containerPort")
		}
		if !maps.Equal(ports, map[any]any{"grpc": 8460, "http": 8461}) {
			t.Errorf("%s has the ports %v", d.where, ports)
		}
	}
	for _, s := range documents(t, "kubernetes/base/service.yaml") {
		for _, p := range list(s, "spec", "ports") {
			if number := map[any]int{"grpc": 8460, "http": 8461}[in(p, "name")]; in(p, "port") != number || in(p, "targetPort") != in(p, "name") {
				t.Errorf("the Service %v has the port %v", in(s, "metadata", "name"), p)
			}
		}
		if got := fmt.Sprint(in(s, "spec", "selector")); got != want {
			t.Errorf("the Service %v selects %s", in(s, "metadata", "name"), got)
		}
	}
	for _, file := range []string{"kubernetes/postgres/poddisruptionbudget.yaml", "kubernetes/base/networkpolicy.yaml", "kubernetes/postgres/networkpolicy.yaml"} {
		spec := in(documents(t, file)[0], "spec")
		if a, b := fmt.Sprint(in(spec, "selector", "matchLabels")), fmt.Sprint(in(spec, "podSelector", "matchLabels")); a != want && b != want {
			t.Errorf("%s selects %s%s, want %s", file, a, b, want)
		}
	}
}

func TestEveryKustomizationNamesFilesThatAreThere(t *testing.T) {
	named := map[string]bool{}
	for _, dir := range []string{"base", "postgres", "embedded"} {
		doc := documents(t, "kubernetes/"+dir+"/kustomization.yaml")[0]
		for _, name := range strs(append(list(doc, "resources"), list(doc, "configMapGenerator", 0, "files")...)) {
			if name == "../base" {
				name = "kustomization.yaml"
			}
			named[dir+"/"+name] = len(deployFile(t, "kubernetes/"+dir+"/"+name)) > 0
		}
	}
	for _, name := range deployFiles(t) {
		if file, is := strings.CutPrefix(name, "kubernetes/"); is && !named[file] && !strings.HasSuffix(file, "kustomization.yaml") {
			t.Errorf("no kustomization names %s", name)
		}
	}
}
