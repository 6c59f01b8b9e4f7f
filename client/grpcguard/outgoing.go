package grpcguard

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/callkey"
	"github.com/oncekeeper/oncekeeper/client/internal/methodoptions"
)

// OutgoingConfig is how calls to a service without a guard are guarded.
type OutgoingConfig struct {
	Config
	// Key names the key of a call that names none by attach.Key, metadata or its
	// key field; "" for none. It wins over a key that attach made, which lasts for
	// one call only. Optional.
	Key func(ctx context.Context, operation string, request proto.Message) (string, error)
}

// Outgoing guards the calls of a gRPC client to a service that has no guard of
// its own: each is begun, made and settled in the caller's process. Not for a
// service that is guarded: both would ask for one key, and the second would wait
// for the first.
//
// What a code means is not known of such a service, so OK alone is kept, and
// every failure but those in Method.Codes is unknown. A call that its caller ends
// is ended, and its outcome unknown too: where it should outlive its caller, give
// it context.WithoutCancel.
type Outgoing struct {
	once *once
	key  func(ctx context.Context, operation string, request proto.Message) (string, error)
}

// NewOutgoing makes a guard of outgoing calls that asks keeper. Its errors are
// New's; and it takes no Receipts: what is called has its effect elsewhere.
func NewOutgoing(keeper *client.Client, cfg OutgoingConfig) (*Outgoing, error) {
	if cfg.Receipts != nil {
		return nil, errors.New("grpcguard: Config.Receipts are of a server's handlers: an outgoing call has its effect elsewhere, and leaves none")
	}
	o, err := newOnce(keeper, cfg.Config, nil)
	if err != nil {
		return nil, err
	}
	return &Outgoing{once: o, key: cfg.Key}, nil
}

// Stats gives what was counted so far. Streams are not counted here.
func (o *Outgoing) Stats() Stats { return o.once.stats.read() }

// Unary is the interceptor. A replay fills the reply, and grpc.Header and
// grpc.Trailer with what is replayed. Outside it attach.UnaryClientInterceptor
// makes keys and waits for other attempts; attach.Key works without it. What the
// call's context sends downstream is not sent to Oncekeeper. A key named by
// attach.Key for a method that is not guarded is INTERNAL, since it would be
// honoured by nobody.
func (o *Outgoing) Unary() grpc.UnaryClientInterceptor { return o.unary }

func (o *Outgoing) unary(
	ctx context.Context, fullMethod string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	named := callkey.FromOptions(options)
	m := o.once.methods["/"+methodoptions.Operation(fullMethod)]
	if m == nil && len(named) > 0 {
		return status.Errorf(codes.Internal, "grpcguard: a key is named for %s, which is neither annotated nor in Config.Methods", fullMethod)
	}
	if m == nil {
		o.once.stats.notGuarded.Add(1)
		return invoke(ctx, fullMethod, request, reply, conn, options...)
	}
	ctx, message, key, err := o.outgoing(ctx, m, request, reply, named)
	switch {
	case err != nil:
		o.once.stats.refused.Add(1)
		return err
	case key == "" && m.required:
		o.once.stats.refused.Add(1)
		return callkey.Refuse(m.operation, m.keyPlace(), "is required")
	case key == "":
		o.once.stats.keyless.Add(1)
		return invoke(ctx, fullMethod, request, reply, conn, options...)
	}
	a, err := o.once.do(ctx, call{method: m, key: key, request: message, run: func(run context.Context) given {
		var header, trailer metadata.MD
		run, end := endWith(run, ctx)
		defer end()
		err := invoke(run, fullMethod, message, reply, conn, append(slices.Clip(options), grpc.Header(&header), grpc.Trailer(&trailer))...)
		return given{response: reply, err: err, header: header, trailer: trailer}
	}})
	if err != nil {
		return err
	}
	if a.replayed {
		fill(options, a.header, a.trailer)
	}
	if a.replayed && a.err == nil {
		return proto.Unmarshal(a.body, reply.(proto.Message))
	}
	return a.err
}

// outgoing gives the context and the request with the call's key in metadata and
// key field as they are to go out, and the key; "" for none.
func (o *Outgoing) outgoing(
	ctx context.Context, m *method, request, reply any, named []string,
) (context.Context, proto.Message, string, error) {
	message, ok := request.(proto.Message)
	into, replies := reply.(proto.Message)
	var inField []string
	if ok && m.keyField != "" {
		var err error
		inField, err = callkey.ReadField(request, m.keyField)
		ok = err == nil
	}
	if !ok || !replies || into.ProtoReflect().Descriptor().FullName() != m.reply.Descriptor().FullName() {
		return ctx, nil, "", status.Errorf(codes.Internal, "grpcguard: a call of %s has a %T and a %T, which is not what its proto says", m.operation, request, reply)
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	key, _, err := callkey.Agree(m.operation,
		callkey.Named{Place: "attach.Key", Keys: named},
		callkey.Named{Place: callkey.Metadata, Keys: sent[callkey.Metadata]},
		callkey.Named{Place: m.keyField, Keys: inField})
	if err == nil {
		ctx, message, key, err = o.known(ctx, m, message, key)
	}
	if err != nil || key == "" {
		return ctx, message, "", err
	}
	if m.keyField != "" {
		message = callkey.WithField(message, m.keyField, key).(proto.Message)
	}
	return ctx, message, key, nil
}

// known has OutgoingConfig.Key name the key of a call that named none, or for
// which attach made one: that lasts for one call, and this may last longer. What
// attach wrote is taken back then.
func (o *Outgoing) known(ctx context.Context, m *method, message proto.Message, key string) (context.Context, proto.Message, string, error) {
	made, ok := callkey.MadeOf(ctx)
	ok = ok && made.Key == key
	if o.key == nil || key != "" && !ok {
		return ctx, message, key, nil
	}
	own := message
	if ok && made.Field != "" {
		own = callkey.WithoutField(message, made.Field)
	}
	known, err := o.key(ctx, m.operation, own)
	if err != nil || known == "" {
		return ctx, message, key, err
	}
	if !ok {
		return ctx, own, known, nil
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	sent.Delete(callkey.Metadata)
	if callkey.Printable(known) {
		sent.Set(callkey.Metadata, known)
	}
	return metadata.NewOutgoingContext(ctx, sent), own, known, nil
}

// endWith gives run with the caller's deadline and end beside its own.
func endWith(run, caller context.Context) (context.Context, context.CancelFunc) {
	cancelDeadline := func() {}
	if deadline, ok := caller.Deadline(); ok {
		run, cancelDeadline = context.WithDeadline(run, deadline)
	}
	run, cancel := context.WithCancel(run)
	stop := context.AfterFunc(caller, cancel)
	return run, func() {
		stop()
		cancel()
		cancelDeadline()
	}
}

// fill gives the caller's options a replay's header and trailer.
func fill(options []grpc.CallOption, header, trailer metadata.MD) {
	for _, option := range options {
		switch into := option.(type) {
		case grpc.HeaderCallOption:
			*into.HeaderAddr = header
		case grpc.TrailerCallOption:
			*into.TrailerAddr = trailer
		}
	}
}
