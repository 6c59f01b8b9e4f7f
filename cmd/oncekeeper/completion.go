package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Of which shell: ${enum}."`
}

func (c *completionCmd) Help() string {
	return `Prints a script for the shell to read, at each start of it: in ~/.bashrc

  source <(oncekeeper completion bash)

in ~/.zshrc, behind compinit, the same with zsh; for fish, as ~/.config/fish/completions/oncekeeper.fish.

Examples:

  oncekeeper completion bash

  oncekeeper completion zsh

  oncekeeper completion fish`
}

// completions have the shell ask the command as it is typed, so what they offer is
// what that version takes.
var completions = map[string]string{
	"bash": `_oncekeeper() {
	local IFS=$'\n'
	COMPREPLY=($("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _oncekeeper oncekeeper
`,
	"zsh": `#compdef oncekeeper
_oncekeeper() {
	local -a found
	found=(${(f)"$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _oncekeeper oncekeeper
`,
	"fish": `function __oncekeeper_complete
	set -l typed (commandline -opc) (commandline -ct)
	$typed[1] complete -- $typed[2..] 2>/dev/null
end
complete -c oncekeeper -a '(__oncekeeper_complete)'
`,
}

func (c *completionCmd) Run(term console) error {
	_, err := io.WriteString(term.out, completions[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"What is typed behind oncekeeper; the last word is not finished."`
}

func (c *completeCmd) Run(parsed *kong.Context, term console) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range candidates(parsed.Model.Node, words) {
		if _, err := fmt.Fprintln(term.out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates gives what the last of words, which is not finished, may become: a
// command, a flag, or a value of a flag that takes one of a few.
func candidates(node *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	typed := words[len(words)-1]
	var open *kong.Flag // waits for its value
	for _, word := range words[:len(words)-1] {
		switch {
		case word == "=": // bash cuts there
		case open != nil:
			open = nil
		case strings.HasPrefix(word, "-"):
			open = takesValue(node, word)
		default:
			if child := commandOf(node, word); child != nil {
				node = child
			}
		}
	}
	if typed == "=" {
		typed = ""
	}
	name, value, hasValue := strings.Cut(typed, "=")
	switch {
	case open != nil:
		return beginning(typed, enumOf(open), "")
	case strings.HasPrefix(typed, "-") && hasValue:
		return beginning(value, enumOf(takesValue(node, name)), name+"=")
	case strings.HasPrefix(typed, "-"):
		return beginning(typed, flagsOf(node), "")
	default:
		return beginning(typed, append(commandsOf(node), argumentsOf(node)...), "")
	}
}

func beginning(prefix string, all []string, before string) (found []string) {
	for _, one := range all {
		if strings.HasPrefix(one, prefix) {
			found = append(found, before+one)
		}
	}
	slices.Sort(found)
	return found
}

func commandOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func commandsOf(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// argumentsOf gives values that the node's arguments may have, where they are few.
func argumentsOf(node *kong.Node) (values []string) {
	for _, arg := range node.Positional {
		if arg.Enum != "" {
			values = append(values, strings.Split(arg.Enum, ",")...)
		}
	}
	return values
}

func flagsOf(node *kong.Node) (names []string) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names = append(names, "--"+flag.Name)
		}
	}
	return names
}

// takesValue gives the flag that word names, where what follows is its value.
func takesValue(node *kong.Node, word string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if (word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short)) && !flag.IsBool() {
				return flag
			}
		}
	}
	return nil
}

func enumOf(flag *kong.Flag) []string {
	if flag == nil || flag.Enum == "" {
		return nil
	}
	return strings.Split(flag.Enum, ",")
}
