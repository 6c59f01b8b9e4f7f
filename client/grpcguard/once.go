package grpcguard

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/faultlog"
)

// once runs calls once: what Guard and Outgoing share. It knows nothing of either
// end's transport.
type once struct {
	Config
	keeper  *client.Client
	methods map[string]*method
	stats   counters
	faults  faultlog.Log
}

func newOnce(keeper *client.Client, cfg Config, answers map[codes.Code]oncekeeper.Settlement) (*once, error) {
	if err := cfg.check(keeper); err != nil {
		return nil, err
	}
	methods, err := cfg.resolve(answers)
	if err != nil {
		return nil, err
	}
	return &once{Config: cfg, keeper: keeper, methods: methods, faults: faultlog.Log{To: cfg.Logger, Guard: "grpcguard"}}, nil
}

// given is what a handler or a downstream gave.
type given struct {
	response        any
	err             error
	header, trailer metadata.MD
}

// answer is what a call is answered with.
type answer struct {
	// replayed: an earlier attempt gave it, and not this call's own.
	replayed bool
	// err is the failure; nil: OK.
	err error
	// response as the call's own attempt gave it, or as it was kept.
	response any
	// body is the response in the bytes that everyone gets; nil where there are
	// none.
	body []byte
	// header and trailer are for a replay alone.
	header, trailer metadata.MD
}

// call is one call as it is guarded.
type call struct {
	method  *method
	key     string
	request proto.Message
	// run gives what the handler or the downstream gives.
	run func(context.Context) given
	// set gives the header and trailer that were set so far; nil: none are known
	// before run returns.
	set func() (header, trailer metadata.MD)
}

// do has run called for the call that its key and request name, unless it ran
// already. The error is a refusal, which wireError reads: run was not called, or
// what it gave does not count.
func (o *once) do(ctx context.Context, call call) (answer, error) {
	m := call.method
	begin, err := o.begin(ctx, call)
	if err != nil {
		o.stats.refused.Add(1)
		return answer{}, err
	}
	var own answer
	// What goes out with the call is for whom it calls: not for Oncekeeper.
	sent, _ := metadata.FromOutgoingContext(ctx)
	result, err := o.keeper.Run(metadata.NewOutgoingContext(ctx, nil), begin, func(ctx context.Context, a *client.Attempt) client.Ended {
		o.stats.ran.Add(1)
		if a.Outage() != client.OutageOpen {
			ctx = context.WithValue(ctx, attemptKey{}, a)
		}
		g := call.run(metadata.NewOutgoingContext(ctx, sent))
		var ended client.Ended
		ended, own = o.end(m, a, g)
		return ended
	})
	o.countOutage(result.Outage)
	switch {
	case result.Ran && superseded(err):
		o.stats.superseded.Add(1)
		return answer{}, o.inProgress(m, supersededDelay)
	case err != nil:
		return answer{}, o.notBegun(ctx, m, err)
	case result.Receipt:
		return o.kept(ctx, m, result.Ended.Response)
	case result.Outcome != nil:
		return o.replay(ctx, m, result.Outcome)
	case result.Ran && m.request.Receipts != nil && result.Outage != client.OutageOpen && own.err != nil:
		return o.refusedByReceipt(ctx, m, own)
	case result.Ran:
		return own, nil
	case result.InProgress != nil:
		o.stats.inProgress.Add(1)
		return answer{}, o.inProgress(m, result.InProgress.RetryDelay)
	default:
		o.stats.unresolved.Add(1)
		return answer{}, unresolved(m, result.Unresolved)
	}
}

// begin gives what the call asks for, or why it cannot.
func (o *once) begin(ctx context.Context, call call) (client.Request, error) {
	m := call.method
	tenant, err := o.Tenant(ctx)
	if err != nil {
		if _, ok := status.FromError(err); ok {
			return client.Request{}, err
		}
		if ctx.Err() != nil {
			return client.Request{}, status.FromContextError(ctx.Err()).Err()
		}
		o.faults.Report(ctx, m.operation, "the tenant of a call is not known", err)
		return client.Request{}, status.Error(codes.Internal, "the tenant of the call cannot be told")
	}
	digest, err := m.digest.Fingerprint(call.request)
	if err != nil {
		return client.Request{}, status.Error(codes.InvalidArgument, err.Error())
	}
	begin := m.request
	begin.Key = oncekeeper.Key{Tenant: tenant, Operation: m.operation, ID: call.key}
	begin.Fingerprint = digest.Digest
	codec := &codec{once: o, method: m, set: call.set}
	if begin.Receipts != nil {
		begin.Codec = codec
	}
	if m.reconcile != nil {
		begin.Reconcile = func(ctx context.Context, q client.Question) (client.Finding, *oncekeeper.Response, error) {
			found, message, err := m.reconcile(ctx, q, call.request)
			if err != nil || found != client.Happened {
				return found, nil, err
			}
			response, err := codec.Encode(message)
			return found, response, err
		}
	}
	return begin, nil
}

// end gives how an attempt ended that gave g, and the caller's answer.
func (o *once) end(m *method, a *client.Attempt, g given) (client.Ended, answer) {
	if g.err != nil {
		st := client.StatusOf(g.err)
		as := m.table.settlement(g.err, codes.Code(st.Code), a.Takeover(), m.request.Receipts != nil)
		return client.Ended{As: as, Status: st}, answer{err: &failure{err: oncekeeper.Past(g.err), st: client.GRPCStatus(st)}}
	}
	kept := &oncekeeper.Response{Metadata: o.replayable(g.header, g.trailer)}
	own := answer{response: g.response}
	message, _ := g.response.(proto.Message)
	if body, err := encode(message); err == nil {
		kept.Body, kept.ContentType = body, contentType(message.ProtoReflect().Descriptor())
		own.body = body
	} else {
		// It ran, and gRPC will find no bytes for it either.
		kept.Omitted = true
	}
	return client.Ended{As: oncekeeper.SettledComplete, Response: kept}, own
}

// superseded says whether another outcome than this attempt's counts. That there
// is no record any more is not that: nothing else is known to have happened, and
// to drop the answer would have the operation run again.
func superseded(err error) bool {
	return errors.Is(err, oncekeeper.ErrFenced) || errors.Is(err, oncekeeper.ErrAlreadySettled)
}

// failure is an error with the status that is kept of it, so that the first
// caller and later ones are told the same.
type failure struct {
	err error
	st  *status.Status
}

func (f *failure) Error() string              { return f.err.Error() }
func (f *failure) Unwrap() error              { return f.err }
func (f *failure) GRPCStatus() *status.Status { return f.st }
