package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/oncekeeper/oncekeeper/server/policy"
)

// policyCmd is for the file that serve --policy takes.
type policyCmd struct {
	Check   policyCheckCmd   `cmd:"" help:"Say what is wrong with a policy file, or what its rules are."`
	Explain policyExplainCmd `cmd:"" help:"Say what an operation is given, by which rule, and why."`
}

type policyCheckCmd struct {
	File string `arg:"" help:"The policy file."`
	JSON bool   `name:"json" help:"Print faults, or rules, as JSON."`
}

func (c *policyCheckCmd) Help() string {
	return `Every fault is one line, FILE:LINE: reason, and the exit code is 1 then: for a build that checks the file before it is rolled out.

Examples:

  oncekeeper policy check policy.yaml

  oncekeeper policy check policy.yaml --json`
}

// checked is what --json prints.
type checked struct {
	Faults []jsonFault   `json:"faults"`
	Rules  []policy.Rule `json:"rules"`
}

type jsonFault struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

func (c *policyCheckCmd) Run(term console) error {
	set, err := readPolicy(c.File)
	faults, faulty := errors.AsType[policy.Faults](err)
	switch {
	case err != nil && !faulty:
		return err
	case c.JSON:
		all := checked{Faults: []jsonFault{}, Rules: []policy.Rule{}}
		for _, f := range faults {
			all.Faults = append(all.Faults, jsonFault(f))
		}
		if set != nil {
			all.Rules = set.Rules()
		}
		err = json.NewEncoder(term.out).Encode(all)
	case faulty:
		_, err = fmt.Fprintln(term.out, faults)
	default:
		err = printRules(term, set)
	}
	if err == nil && faulty {
		err = fmt.Errorf("%s is refused", c.File)
	}
	return err
}

func readPolicy(path string) (*policy.Set, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	return policy.Parse(path, text)
}

func printRules(term console, set *policy.Set) error {
	t := tabwriter.NewWriter(term.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "RULE\tLINE\tTENANT\tOPERATION\tGIVES")
	for _, r := range set.Rules() {
		line := "-"
		if r.Line > 0 {
			line = fmt.Sprint(r.Line)
		}
		gives := make([]string, len(r.Gives))
		for i, v := range r.Gives {
			gives[i] = v.Name + "=" + v.Value
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Name, line, printable(r.Tenant), printable(r.Operation), strings.Join(gives, " "))
	}
	return t.Flush()
}

// policyFlag names the file wherever a command takes one.
type policyFlag struct {
	Policy string `env:"ONCEKEEPER_POLICY" placeholder:"FILE" help:"The policy file, YAML. Without one the built-in policy holds for every key."`
}

type policyExplainCmd struct {
	Tenant    string `arg:"" help:"Whose operation."`
	Operation string `arg:"" help:"Which operation."`
	JSON      bool   `name:"json" help:"Print it as JSON."`

	policyFlag
}

func (c *policyExplainCmd) Help() string {
	return `It reads the file, not a running service: whether a service has read the file too, its log says.

Examples:

  oncekeeper policy explain acme payouts.create --policy policy.yaml

  oncekeeper policy explain acme payouts.create --json`
}

func (c *policyExplainCmd) Run(term console) error {
	set := policy.BuiltIn()
	if c.Policy != "" {
		var err error
		if set, err = readPolicy(c.Policy); err != nil {
			return refusedPolicy(err)
		}
	}
	e := set.Explain(c.Tenant, c.Operation)
	if c.JSON {
		return json.NewEncoder(term.out).Encode(e)
	}
	if e.Rule == policy.DefaultRule {
		_, _ = fmt.Fprintln(term.out, "the defaults hold: no rule fits")
	} else {
		_, _ = fmt.Fprintf(term.out, "rule %s (line %d) holds: it is the first that fits\n", e.Rule, e.Line)
	}
	for _, passed := range e.Passed {
		_, _ = fmt.Fprintf(term.out, "not rule %s (line %d): %s\n", passed.Rule, passed.Line, printable(passed.Reason))
	}
	_, _ = fmt.Fprintln(term.out)
	t := tabwriter.NewWriter(term.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SETTING\tVALUE\tFROM")
	for _, v := range e.Values {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", v.Name, v.Value, v.From)
	}
	return t.Flush()
}

// refusedPolicy puts faults below one another.
func refusedPolicy(err error) error {
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		return fmt.Errorf("the policy is refused:\n%w", faults)
	}
	return err
}

// livePolicy gives what holds for keys, and has r keep it what the file says.
func (f *policyFlag) livePolicy(ctx context.Context, r *reloader) (policy.Source, error) {
	live := policy.NewLive(policy.BuiltIn())
	if f.Policy == "" {
		return live, nil
	}
	return live, refusedPolicy(r.join(ctx, &reloaded{
		what: "policy", paths: []string{f.Policy},
		use: func(texts [][]byte) (string, error) {
			set, err := policy.Parse(f.Policy, texts[0])
			if err != nil {
				return "", err
			}
			changes := set.Since(live.Current())
			live.Use(set)
			return changes.String(), nil
		},
	}))
}
