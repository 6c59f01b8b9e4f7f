package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asCommand has the test binary be the command, for shells to call.
const asCommand = "ONCEKEEPER_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main() // the service that bench starts
	}
	if os.Getenv(asCommand) != "" {
		os.Exit(run(context.Background(), os.Args[1:], console{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
	}
	// bench starts this binary as the service that it measures.
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
	}
	os.Exit(m.Run())
}

func TestCompletionOffersCommandsFlagsAndTheValuesOfFlags(t *testing.T) {
	for typed, want := range map[string]string{
		"ge":                        "[get]",
		"comp":                      "[completion]",
		"receipt ":                  "[delete schema]",
		"get --js":                  "[--json]",
		"get --addr":                "[--address]",
		"list --state un":           "[unresolved]",
		"list --state=un":           "[--state=unresolved]",
		"list --state = un":         "[unresolved]",
		"list --tenant demo --stat": "[--state]",
		"list --tenant --stat":      "[]", // a tenant may be called so
		"receipt schema --dialect ": "[postgres sqlite]",
		"completion z":              "[zsh]",
		"get demo greet ":           "[]",
		"delete -y --rea":           "[--reason]",
		"nonsense --log-lev":        "[--log-level]",
	} {
		code, stdout, stderr := command(t, append([]string{"complete", "--"}, strings.Split(typed, " ")...)...)
		if got := fmt.Sprint(strings.Fields(stdout)); got != want || code != 0 {
			t.Errorf("behind %q it offers %s, want %s (exit %d, %s)", typed, got, want, code, stderr)
		}
	}
}

func TestTheScriptCompletesInBash(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "oncekeeper")); err != nil {
		t.Fatal(err)
	}
	const typing = `source <(oncekeeper completion bash)
complete -p oncekeeper
COMP_WORDS=(oncekeeper %s) COMP_CWORD=%d
_oncekeeper oncekeeper
printf '<%%s>' "${COMPREPLY[@]}"`
	for typed, want := range map[string]string{"li": "<list>", "list --state un": "<unresolved>", "list --old": "<--oldest-first>", "get ''": "<>"} {
		cmd := exec.CommandContext(t.Context(), "bash", "--norc", "-c", fmt.Sprintf(typing, typed, len(strings.Fields(typed))))
		cmd.Env = append(os.Environ(), asCommand+"=1", "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "\n"+want) || !strings.Contains(string(out), "-F _oncekeeper oncekeeper") {
			t.Errorf("behind %q bash has %q (%v), want %s", typed, out, err, want)
		}
	}
}
