package policy

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/server/internal/rulefile"
)

func (p *parser) readDefaults(n *yaml.Node) {
	p.defaults.rule = builtIn()
	if n == nil {
		return
	}
	p.defaults.line = n.Line
	p.Mapping(n, "defaults", func(key string, value *yaml.Node) bool {
		return p.readSetting(&p.defaults, key, value)
	})
}

func (p *parser) readRules(n *yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.Refuse(n, "rules is %s, and must be a list", rulefile.KindOf(n))
		return
	}
	if len(n.Content) > MaxRules {
		p.Refuse(n.Content[MaxRules], "there are %d rules; at most %d are taken", len(n.Content), MaxRules)
		return
	}
	for _, item := range n.Content {
		p.rules = append(p.rules, p.readRule(item))
	}
	p.judgeNames()
}

func (p *parser) readRule(n *yaml.Node) draft {
	d := p.defaults
	d.name, d.line, d.own = "", n.Line, [settingCount]bool{}
	p.Mapping(n, "a rule", func(key string, value *yaml.Node) bool {
		switch key {
		case "name":
			d.name = p.readName(value)
		case "tenant":
			d.tenant = p.readPatterns(&d, key, value, oncekeeper.MaxTenantBytes)
		case "operation":
			d.operation = p.readPatterns(&d, key, value, oncekeeper.MaxOperationBytes)
		default:
			return p.readSetting(&d, key, value)
		}
		return true
	})
	if n.Kind != yaml.MappingNode {
		d.unfit = true
		return d
	}
	if !has(n, "name") {
		p.Refuse(n, "a rule has no name")
	}
	if !has(n, "tenant") && !has(n, "operation") {
		p.Refuse(n, "a rule names neither tenant nor operation: what holds for all belongs in defaults")
		d.unfit = true
	}
	for i := range d.origins {
		if d.own[i] {
			d.origins[i].Rule = d.name
		}
	}
	return d
}

func has(n *yaml.Node, key string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// readSetting reads a value, or the windows, into d; it says whether there is one
// of that name.
func (p *parser) readSetting(d *draft, key string, value *yaml.Node) bool {
	if key == "windows" {
		p.Mapping(value, key, func(key string, value *yaml.Node) bool {
			return p.readValue(d, windowPrefix+key, value)
		})
		return true
	}
	return !strings.HasPrefix(key, windowPrefix) && p.readValue(d, key, value)
}

func (p *parser) readValue(d *draft, name string, value *yaml.Node) bool {
	at := settingNamed(name)
	if at < 0 {
		return false
	}
	d.own[at], d.unread[at] = true, true
	d.origins[at] = Origin{Rule: d.name, Line: value.Line}
	text, ok := p.Scalar(value, name)
	if !ok {
		return true
	}
	if err := settings[at].read(&d.policy, text); err != nil {
		p.Refuse(value, "%s: %v", name, err)
		return true
	}
	d.unread[at] = false
	return true
}
