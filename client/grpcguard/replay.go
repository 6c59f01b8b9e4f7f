package grpcguard

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// The ErrorInfo metadata that says where to look, and which attempt of a held key
// is to be settled.
const (
	resourceKey      = "resource"
	tokenKey         = "fencing_token"
	attemptNumberKey = "attempt_number"
)

var (
	errNoMessage = errors.New("there is no protobuf message")
	errNoOutcome = errors.New("it has neither response nor status")
)

// encode gives the bytes that are kept of message. Never nil without an error.
func encode(message proto.Message) ([]byte, error) {
	if message == nil {
		return nil, errNoMessage
	}
	body, err := proto.Marshal(message)
	if err == nil && body == nil {
		body = []byte{}
	}
	return body, err
}

// contentType is the type URL that says what a kept body is.
func contentType(message protoreflect.MessageDescriptor) string {
	return client.TypeURLPrefix + string(message.FullName())
}

// replay gives the answer of an earlier attempt.
func (o *once) replay(ctx context.Context, m *method, outcome *oncekeeper.Outcome) (answer, error) {
	switch r := outcome.Response; {
	case outcome.Status != nil && outcome.Origin == oncekeeper.OriginExhausted:
		o.stats.exhausted.Add(1)
		return answer{}, exhausted(m, outcome.Status)
	case outcome.Status != nil:
		o.stats.replayed.Add(1)
		header, trailer := replayedMetadata(nil)
		return answer{replayed: true, err: client.GRPCStatus(outcome.Status).Err(), header: header, trailer: trailer}, nil
	case r == nil:
		o.stats.unavailable.Add(1)
		o.faults.Report(ctx, m.operation, "an outcome is of a kind that this version does not know", errNoOutcome)
		return answer{}, status.Error(codes.Internal, "the outcome is of a kind that this version of the guard does not know")
	case r.Omitted:
		o.stats.notKept.Add(1)
		return answer{}, notKept(m, r)
	}
	message, err := decode(m.reply, outcome.Response)
	if err != nil {
		o.faults.Report(ctx, m.operation, "a kept response does not fit the method any more", err)
		o.stats.notKept.Add(1)
		return answer{}, notKept(m, outcome.Response)
	}
	o.stats.replayed.Add(1)
	header, trailer := replayedMetadata(outcome.Response)
	body := outcome.Response.Body
	if body == nil {
		body = []byte{} // an empty one, and not none
	}
	return answer{replayed: true, response: message, body: body, header: header, trailer: trailer}, nil
}

// decode reads a kept body as a reply.
func decode(reply protoreflect.MessageType, r *oncekeeper.Response) (proto.Message, error) {
	if want := contentType(reply.Descriptor()); r.ContentType != want {
		return nil, fmt.Errorf("it is %q, not %q", r.ContentType, want)
	}
	message := reply.New().Interface()
	return message, proto.Unmarshal(r.Body, message)
}

// notKept is the refusal of a call that ran and whose response cannot be given.
func notKept(m *method, r *oncekeeper.Response) error {
	var d wire.Details
	if r.Resource != "" {
		d.Metadata = map[string]string{resourceKey: r.Resource}
	}
	return refuseWith(oncekeeper.ErrResponseNotKept, m.operation, d)
}

// exhausted is the refusal of a call whose attempts are used up, with what the
// last of them said.
func exhausted(m *method, last *oncekeeper.Status) error {
	sentinel, _ := oncekeeper.SentinelOf(oncekeeper.ErrAttemptsExhausted)
	p := wire.Status(sentinel, m.operation, wire.Details{}).Proto()
	p.Message = fmt.Sprintf("%s: the last gave %s: %s", p.GetMessage(), codes.Code(last.Code), last.Message)
	return wire.FromError(status.FromProto(p).Err(), nil)
}
