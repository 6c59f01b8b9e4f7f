package fingerprint

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// ignored is a tree of fields to leave out, by number, so that it fits any
// build's descriptor of the same type. Nil ignores nothing.
type ignored struct {
	whole bool
	under map[protoreflect.FieldNumber]*ignored
}

// at is what of field n is ignored.
func (i *ignored) at(n protoreflect.FieldNumber) *ignored {
	if i == nil {
		return nil
	}
	return i.under[n]
}

func (i *ignored) all() bool { return i != nil && i.whole }

func parseIgnore(desc protoreflect.MessageDescriptor, paths []string) (*ignored, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := &ignored{}
	for _, path := range paths {
		if err := root.add(desc, path); err != nil {
			return nil, fmt.Errorf("%w: %q in %s: %s", ErrPath, path, desc.FullName(), err)
		}
	}
	return root, nil
}

func (i *ignored) add(desc protoreflect.MessageDescriptor, path string) error {
	node := i
	for name := range strings.SplitSeq(path, ".") {
		if desc == nil {
			return fmt.Errorf("nothing that a path can enter stands before %q", name)
		}
		field := desc.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return fmt.Errorf("%s has no field %q", desc.FullName(), name)
		}
		if node.under == nil {
			node.under = map[protoreflect.FieldNumber]*ignored{}
		}
		next := node.under[field.Number()]
		if next == nil {
			next = &ignored{}
			node.under[field.Number()] = next
		}
		node, desc = next, entered(field)
	}
	node.whole = true
	return nil
}

// entered is the message that a path goes on in after field: the field's own,
// each element's, or each map value's. Nil where there is none.
func entered(field protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if field.IsMap() {
		return field.MapValue().Message()
	}
	return field.Message()
}
