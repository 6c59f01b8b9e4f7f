package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	// MaxFileBytes bounds a policy file.
	MaxFileBytes = 1 << 20
	// MaxRules bounds its rules, each of which is a label of metrics.
	MaxRules = 100
)

// Parse reads a policy file, whose name is told with its faults. What it gives is
// valid; the error is Faults.
func Parse(file string, text []byte) (*Set, error) {
	p := &parser{file: file}
	if root := p.document(text); root != nil {
		p.read(root)
	}
	if err := p.faults.err(); err != nil {
		return nil, err
	}
	return p.set(), nil
}

// parser gathers what a file says, and all that is wrong with it.
type parser struct {
	file     string
	faults   Faults
	defaults draft
	rules    []draft
}

// draft is a rule, or the defaults, as it is read.
type draft struct {
	rule
	// own are settings that it gives itself.
	own [settingCount]bool
	// unread are settings whose text is no value: what rests on them is not judged.
	unread [settingCount]bool
	// unfit: its patterns are not to be compared.
	unfit bool
}

func (p *parser) refuse(n *yaml.Node, format string, args ...any) {
	p.refuseAt(n.Line, format, args...)
}

func (p *parser) refuseAt(line int, format string, args ...any) {
	p.faults = append(p.faults, Fault{File: p.file, Line: max(line, 1), Reason: fmt.Sprintf(format, args...)})
}

// document gives the mapping that a file is, or nil.
func (p *parser) document(text []byte) *yaml.Node {
	if len(text) > MaxFileBytes {
		p.refuseAt(1, "the file has more than %s", formatSize(MaxFileBytes))
		return nil
	}
	// A file that is being written is empty for a moment, and must not be taken for
	// one that asks for nothing.
	if len(strings.TrimSpace(string(text))) == 0 {
		p.refuseAt(1, "the file is empty: a policy that changes nothing is `defaults: {}`")
		return nil
	}
	var doc yaml.Node
	// Nodes are not decoded, so no alias is followed and nothing grows.
	if err := yaml.Load(text, &doc, yaml.WithV4Defaults()); err != nil {
		p.unreadable(err)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		p.refuseAt(1, "the file is no YAML document")
		return nil
	}
	return doc.Content[0]
}

func (p *parser) unreadable(err error) {
	if at := (*yaml.LoadError)(nil); errors.As(err, &at) {
		p.refuseAt(at.Mark.Line, "it is no YAML: %s", at.Message)
		return
	}
	p.refuseAt(1, "it is no YAML: %v", err)
}

func (p *parser) read(root *yaml.Node) {
	var defaults, rules *yaml.Node
	p.mapping(root, "the file", func(key string, value *yaml.Node) bool {
		switch key {
		case "defaults":
			defaults = value
		case "rules":
			rules = value
		default:
			return false
		}
		return true
	})
	p.readDefaults(defaults)
	p.readRules(rules)
	p.judge(&p.defaults)
	for i := range p.rules {
		p.judge(&p.rules[i])
		p.judgeOrder(i)
	}
}

// mapping calls take for each entry of n; take says whether it knows the key.
func (p *parser) mapping(n *yaml.Node, what string, take func(key string, value *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		p.refuse(n, "%s is %s, and must be a mapping", what, kindOf(n))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at, twice := first[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			p.refuse(key, "a key is %s, and must be a name", kindOf(key))
		case twice:
			p.refuse(key, "%s is given twice: first in line %d", shown(key.Value), at)
		case value.Kind == yaml.AliasNode:
			p.refuse(value, "%s is an alias: write it out", shown(key.Value))
		case !take(key.Value, value):
			p.refuse(key, "%s is not known in %s", shown(key.Value), what)
		}
		if key.Kind == yaml.ScalarNode && !twice {
			first[key.Value] = key.Line
		}
	}
}

// scalar gives the text of n, which is what name stands before.
func (p *parser) scalar(n *yaml.Node, name string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		p.refuse(n, "%s is %s, and must be one value", name, kindOf(n))
	case n.ShortTag() == "!!null":
		p.refuse(n, "%s has no value", name)
	default:
		return n.Value, true
	}
	return "", false
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.ShortTag() == "!!null":
		return "empty"
	default:
		return "a value"
	}
}

func (p *parser) set() *Set {
	s := &Set{defaults: p.defaults.rule}
	for _, d := range p.rules {
		s.rules = append(s.rules, d.rule)
	}
	s.rules = slices.Clip(s.rules)
	return s
}
