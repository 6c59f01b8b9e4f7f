package policy

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

// Fault is one thing that is wrong with a policy file; Faults are all, by their
// lines: the error of Parse.
type (
	Fault  = rulefile.Fault
	Faults = rulefile.Faults
)

const (
	// MaxFileBytes bounds a policy file.
	MaxFileBytes = rulefile.MaxFileBytes
	// MaxRules bounds its rules, each of which is a label of metrics.
	MaxRules = 100
)

// Parse reads a policy file, whose name is told with its faults. What it gives is
// valid; the error is Faults.
func Parse(file string, text []byte) (*Set, error) {
	p := &parser{Reader: rulefile.Reader{File: file}}
	if root := p.Document(text, "a policy that changes nothing is `defaults: {}`"); root != nil {
		p.read(root)
	}
	if err := p.Faults.Err(); err != nil {
		return nil, err
	}
	return p.set(), nil
}

// parser gathers what a file says, and all that is wrong with it.
type parser struct {
	rulefile.Reader
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

func (p *parser) read(root *yaml.Node) {
	var defaults, rules *yaml.Node
	p.Mapping(root, "the file", func(key string, value *yaml.Node) bool {
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

func (p *parser) set() *Set {
	s := &Set{defaults: p.defaults.rule}
	for _, d := range p.rules {
		s.rules = append(s.rules, d.rule)
	}
	s.rules = slices.Clip(s.rules)
	return s
}
