package attach

import (
	"slices"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	"github.com/oncekeeper/oncekeeper/client/internal/methodoptions"
)

// method is what is known of a method before any call of it.
type method struct {
	operation string
	// keyed: a call that names no key is given one.
	keyed bool
	// field of the request is the key; empty: none is.
	field string
	// ignore is what a guard's fingerprint leaves out.
	ignore []string
}

// method looks a method up, the first time by its descriptor.
func (i *interceptor) method(fullMethod string) *method {
	if known, ok := i.methods.Load(fullMethod); ok {
		return known.(*method)
	}
	m := &method{operation: methodoptions.Operation(fullMethod)}
	found, _ := methodoptions.Find(protoregistry.GlobalFiles, fullMethod)
	m.field = found.Options.GetKeyField()
	m.keyed = found.Options != nil || i.selected != nil && i.selected(m.operation)
	if field, ok := i.fields[m.operation]; ok {
		m.field, m.keyed = field, true
	}
	m.ignore = slices.Clone(found.Options.GetFingerprintIgnore())
	if m.field != "" {
		m.ignore = append(m.ignore, m.field)
	}
	i.methods.Store(fullMethod, m)
	return m
}

// named gives the one key that a call's places name, and "" where none does.
func (m *method) named(request any, byOption, byMetadata []string) (key string, err error) {
	var inField []string
	if m.field != "" {
		if inField, err = callkey.ReadField(request, m.field); err != nil {
			return "", status.Errorf(codes.Internal, "attach: %s: %v", m.operation, err)
		}
	}
	key, _, err = callkey.Agree(m.operation,
		callkey.Named{Place: "attach.Key", Keys: byOption},
		callkey.Named{Place: callkey.Metadata, Keys: byMetadata},
		callkey.Named{Place: m.field, Keys: inField})
	if err == nil && !callkey.Printable(key) && m.field == "" {
		return "", callkey.Refuse(m.operation, callkey.Metadata, "carries printable ASCII only")
	}
	return key, err
}

// newKey gives a key for one call.
func newKey() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", status.Errorf(codes.Internal, "attach: making a key: %v", err)
	}
	return id.String(), nil
}
