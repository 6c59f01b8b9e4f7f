// Package rulefile reads files of rules: YAML whose every fault is told by its
// line, and patterns of tenants and operations.
//
// It knows no rule, and nothing of where a file lies.
package rulefile

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// MaxFileBytes bounds a file.
const MaxFileBytes = 1 << 20

// Reader gathers all that is wrong with a file while it is read.
type Reader struct {
	File   string
	Faults Faults
}

// Refuse tells a fault at n.
func (p *Reader) Refuse(n *yaml.Node, format string, args ...any) {
	p.RefuseAt(n.Line, format, args...)
}

// RefuseAt tells a fault in a line.
func (p *Reader) RefuseAt(line int, format string, args ...any) {
	p.Faults = append(p.Faults, Fault{File: p.File, Line: max(line, 1), Reason: fmt.Sprintf(format, args...)})
}

// Document gives what a file is, or nil. Of an empty one it says what to write.
func (p *Reader) Document(text []byte, write string) *yaml.Node {
	if len(text) > MaxFileBytes {
		p.RefuseAt(1, "the file has more than 1MiB")
		return nil
	}
	// A file that is being written is empty for a moment, and must not be taken for
	// one that asks for nothing.
	if len(strings.TrimSpace(string(text))) == 0 {
		p.RefuseAt(1, "the file is empty: %s", write)
		return nil
	}
	var doc yaml.Node
	// Nodes are not decoded, so no alias is followed and nothing grows.
	if err := yaml.Load(text, &doc, yaml.WithV4Defaults()); err != nil {
		p.unreadable(err)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		p.RefuseAt(1, "the file is no YAML document")
		return nil
	}
	return doc.Content[0]
}

func (p *Reader) unreadable(err error) {
	if at := (*yaml.LoadError)(nil); errors.As(err, &at) {
		p.RefuseAt(at.Mark.Line, "it is no YAML: %s", at.Message)
		return
	}
	p.RefuseAt(1, "it is no YAML: %v", err)
}

// Mapping calls take for each entry of n; take says whether it knows the key.
func (p *Reader) Mapping(n *yaml.Node, what string, take func(key string, value *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		p.Refuse(n, "%s is %s, and must be a mapping", what, KindOf(n))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at, twice := first[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			p.Refuse(key, "a key is %s, and must be a name", KindOf(key))
		case twice:
			p.Refuse(key, "%s is given twice: first in line %d", Shown(key.Value), at)
		case value.Kind == yaml.AliasNode:
			p.Refuse(value, "%s is an alias: write it out", Shown(key.Value))
		case !take(key.Value, value):
			p.Refuse(key, "%s is not known in %s", Shown(key.Value), what)
		}
		if key.Kind == yaml.ScalarNode && !twice {
			first[key.Value] = key.Line
		}
	}
}

// Scalar gives the text of n, which is what name stands before.
func (p *Reader) Scalar(n *yaml.Node, name string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		p.Refuse(n, "%s is %s, and must be one value", name, KindOf(n))
	case n.ShortTag() == "!!null":
		p.Refuse(n, "%s has no value", name)
	default:
		return n.Value, true
	}
	return "", false
}

// KindOf says what n is, to a reader.
func KindOf(n *yaml.Node) string {
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
