package attach

import (
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
}

// method looks a method up, the first time by its descriptor.
func (i *interceptor) method(fullMethod string) method {
	if known, ok := i.methods.Load(fullMethod); ok {
		return known.(method)
	}
	m := method{operation: methodoptions.Operation(fullMethod)}
	found, _ := methodoptions.Find(protoregistry.GlobalFiles, fullMethod)
	m.field = found.Options.GetKeyField()
	m.keyed = found.Options != nil || i.selected != nil && i.selected(m.operation)
	if field, ok := i.fields[m.operation]; ok {
		m.field, m.keyed = field, true
	}
	i.methods.Store(fullMethod, m)
	return m
}

// key gives the one key of a call, and "" for a call that is to have none. Made:
// nobody named it.
func (m method) key(request any, byOption, byMetadata []string) (key string, made bool, err error) {
	var inField []string
	if m.field != "" {
		if inField, err = callkey.ReadField(request, m.field); err != nil {
			return "", false, status.Errorf(codes.Internal, "attach: %s: %v", m.operation, err)
		}
	}
	key, named, err := callkey.Agree(m.operation,
		callkey.Named{Place: "attach.Key", Keys: byOption},
		callkey.Named{Place: callkey.Metadata, Keys: byMetadata},
		callkey.Named{Place: m.field, Keys: inField})
	switch {
	case err != nil:
		return "", false, err
	case !named && !m.keyed:
		return "", false, nil
	case !named:
		id, err := uuid.NewV7()
		if err != nil {
			return "", false, status.Errorf(codes.Internal, "attach: making a key: %v", err)
		}
		return id.String(), true, nil
	case !callkey.Printable(key) && m.field == "":
		return "", false, callkey.Refuse(m.operation, callkey.Metadata, "carries printable ASCII only")
	}
	return key, false, nil
}
