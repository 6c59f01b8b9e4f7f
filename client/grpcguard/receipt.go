package grpcguard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// codec keeps one call's response in its receipt as the guard itself keeps one:
// with the metadata that was set until then.
type codec struct {
	once   *once
	method *method
	set    func() (header, trailer metadata.MD)
}

var _ receipt.Codec = (*codec)(nil)

func (c *codec) Encode(value any) (*oncekeeper.Response, error) {
	message, ok := value.(proto.Message)
	if want := c.method.reply.Descriptor().FullName(); !ok || message.ProtoReflect().Descriptor().FullName() != want {
		return nil, fmt.Errorf("grpcguard: InTx gives a %T, and %s answers with a %s: what InTx gives is the answer", value, c.method.operation, want)
	}
	body, err := encode(message)
	if err != nil {
		return nil, fmt.Errorf("grpcguard: the response of %s cannot be encoded: %w", c.method.operation, err)
	}
	r := &oncekeeper.Response{Body: body, ContentType: contentType(message.ProtoReflect().Descriptor())}
	if c.set != nil {
		r.Metadata = c.once.replayable(c.set())
	}
	return r, nil
}

// Decode takes a message, or a pointer to one's pointer.
func (c *codec) Decode(kept *oncekeeper.Response, into any) error {
	message, err := decode(c.method.reply, kept)
	if err != nil {
		return fmt.Errorf("%w: %w", client.ErrUndecodable, err)
	}
	own := message.ProtoReflect().Interface()
	if to, ok := into.(proto.Message); ok && to.ProtoReflect().Descriptor() == own.ProtoReflect().Descriptor() {
		proto.Reset(to)
		proto.Merge(to, own)
		return nil
	}
	to := reflect.ValueOf(into)
	if to.Kind() != reflect.Pointer || to.IsNil() || !reflect.TypeOf(own).AssignableTo(to.Type().Elem()) {
		return fmt.Errorf("%w: InTx takes it as a %T, and %s answers with a %T", client.ErrUndecodable, into, c.method.operation, own)
	}
	to.Elem().Set(reflect.ValueOf(own))
	return nil
}

// kept gives the call's own answer in the bytes that its receipt holds.
func (o *once) kept(ctx context.Context, m *method, r *oncekeeper.Response) (answer, error) {
	message, err := decode(m.reply, r)
	if err != nil {
		o.faults.Report(ctx, m.operation, "a receipt does not fit the method any more", err)
		o.stats.notKept.Add(1)
		return answer{}, notKept(m, r)
	}
	body := r.Body
	if body == nil {
		body = []byte{}
	}
	return answer{response: message, body: body}, nil
}

// refusedByReceipt is the answer of a call that failed: where it was its receipt
// that refused it, its caller is told so. Under a token that is the floor's doing
// alone, after the service was lost; Run itself tells of another request's.
func (o *once) refusedByReceipt(ctx context.Context, m *method, own answer) (answer, error) {
	var nested *wire.Error
	switch {
	case errors.As(own.err, &nested):
		return own, nil
	case errors.Is(own.err, oncekeeper.ErrFenced):
		return answer{}, o.notBegun(ctx, m, client.ErrUnavailable)
	case errors.Is(own.err, oncekeeper.ErrFingerprintMismatch):
		return answer{}, o.notBegun(ctx, m, oncekeeper.ErrFingerprintMismatch)
	default:
		return own, nil
	}
}

func (o *once) countOutage(mode client.Outage) {
	switch mode {
	case client.OutageReceiptsOnly:
		o.stats.outageReceipts.Add(1)
	case client.OutageOpen:
		o.stats.outageOpen.Add(1)
	}
}
