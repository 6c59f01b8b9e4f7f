package httpguard

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/faultlog"
	"github.com/oncekeeper/oncekeeper/client/internal/headerkey"
	"github.com/oncekeeper/oncekeeper/client/internal/httpdigest"
)

// Guard guards the handlers of an HTTP server. It may be used by several.
type Guard struct {
	cfg    Config
	keeper *client.Client
	stats  counters
	faults faultlog.Log
}

// New makes a guard that asks keeper, or says what is wrong with cfg.
func New(keeper *client.Client, cfg Config) (*Guard, error) {
	if err := cfg.check(keeper); err != nil {
		return nil, err
	}
	return &Guard{cfg: cfg, keeper: keeper, faults: faultlog.Log{To: cfg.Logger, Guard: "httpguard"}}, nil
}

// Stats gives what was counted so far.
func (g *Guard) Stats() Stats { return g.stats.read() }

// Operation gives the middleware that guards the route of an operation: its name
// is part of the key, 1 to 256 bytes ("charges.create"), so that a route may move
// and two methods of one path are two operations. It panics where an option is
// wrong, as http.ServeMux does for a pattern: that is a fault of the program, and
// found at its start.
func (g *Guard) Operation(name string, options ...Option) func(http.Handler) http.Handler {
	o, err := newOperation(g, name, options)
	if err != nil {
		panic(err)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.serve(w, r, next) })
	}
}

func (o *operation) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if safe(r.Method) {
		o.stats.notGuarded.Add(1)
		next.ServeHTTP(w, r)
		return
	}
	key, ok, err := headerkey.Parse(r.Header.Values(keyField))
	switch {
	case err != nil:
		o.stats.refused.Add(1)
		o.refuse(w, &problem{kind: invalidProblem, Detail: keyField + " " + err.Error() + "."})
		return
	case !ok && o.required:
		o.stats.refused.Add(1)
		o.refuse(w, &problem{kind: keyMissingProblem, Detail: "This operation takes effect once for each Idempotency-Key: send one, and the same one with every retry."})
		return
	case !ok:
		o.stats.keyless.Add(1)
		next.ServeHTTP(w, r)
		return
	}
	begin, body, refusal := o.begin(w, r, key)
	if refusal != nil {
		o.refuse(w, refusal)
		return
	}
	o.once(w, giveBody(r, body), begin, next)
}

// safe is RFC 9110's, section 9.2.1: a request that asks for no effect.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	default:
		return false
	}
}

// begin gives what the request asks for and its body, or why it cannot.
func (o *operation) begin(w http.ResponseWriter, r *http.Request, key string) (client.Request, []byte, *problem) {
	tenant, err := o.cfg.Tenant(r)
	switch {
	case errors.Is(err, oncekeeper.ErrUnauthenticated) || errors.Is(err, oncekeeper.ErrPermissionDenied):
		o.stats.refused.Add(1)
		return client.Request{}, nil, &problem{kind: tenantProblem}
	case err != nil:
		o.stats.refused.Add(1)
		o.faults.Report(r.Context(), o.name, "the tenant of a request is not known", err)
		return client.Request{}, nil, &problem{kind: faultProblem, Detail: "Whose request it is cannot be told."}
	}
	body, err := readBody(w, r, o.maxRequestBytes)
	if err != nil {
		return client.Request{}, nil, o.refusalOf(r, err)
	}
	begin := o.request
	begin.Key = oncekeeper.Key{Tenant: tenant, Operation: o.name, ID: key}
	begin.Fingerprint = httpdigest.Digest(r, body)
	if begin.Receipts != nil {
		begin.Codec = codec{o}
	}
	if o.reconcile != nil {
		begin.Reconcile = o.reconcileFor(r, body)
	}
	return begin, body, nil
}

// once has next run for the request, unless it ran already.
func (o *operation) once(w http.ResponseWriter, r *http.Request, begin client.Request, next http.Handler) {
	var own answer
	// What goes out with a call of the handler's is for whom it calls, and not for
	// Oncekeeper.
	sent, _ := metadata.FromOutgoingContext(r.Context())
	result, err := o.keeper.Run(metadata.NewOutgoingContext(r.Context(), nil), begin, func(ctx context.Context, a *client.Attempt) client.Ended {
		o.stats.ran.Add(1)
		own.record = newRecorder(w, a.MaxResponseBytes(), func() bool { return ctx.Err() != nil })
		if o.request.Receipts != nil {
			own.record.sum = sha256.New()
		}
		handled := metadata.NewOutgoingContext(ctx, sent)
		if a.Outage() != client.OutageOpen {
			handled = context.WithValue(handled, runKey{}, run{attempt: a, record: own.record})
		}
		next.ServeHTTP(own.record, r.WithContext(handled))
		own.record.finish()
		return o.end(ctx, a, &own)
	})
	o.countOutage(result.Outage)
	switch {
	case result.Ran && superseded(err):
		o.stats.superseded.Add(1)
		own.record.abort()
		o.refuse(w, inProgress(supersededDelay))
	case err != nil:
		own.record.abort()
		o.refuse(w, o.notBegun(r.Context(), err))
	case result.Receipt:
		o.giveReceipt(w, r, own, result.Ended.Response)
	case result.Outcome != nil:
		own.record.abort()
		o.replayOf(w, r, result.Outcome)
	case result.Ran:
		o.give(w, r, own, result)
	case result.InProgress != nil:
		o.stats.inProgress.Add(1)
		o.refuse(w, inProgress(result.InProgress.RetryDelay))
	default:
		o.stats.unresolved.Add(1)
		o.refuse(w, unresolved(result.Unresolved))
	}
}

// answer is what this request's own attempt gave.
type answer struct {
	record *recorder
	// unknown: nobody knows whether it is all, since the attempt was ended.
	unknown bool
}

// end gives how an attempt ended whose handler has returned.
func (o *operation) end(ctx context.Context, a *client.Attempt, own *answer) client.Ended {
	r := own.record
	as := o.table.settlement(r.status, said{
		as: r.as, takeover: a.Takeover(), receipts: o.request.Receipts != nil,
		rolledBack: oncekeeper.IsRolledBack(r.failure), nested: r.nested,
	})
	if ctx.Err() != nil || !r.whole() {
		// A handler that is stopped stops writing, and says no more than that. What
		// says so itself is told as it stands, but for a refusal that a receipt was to
		// rule an effect out for: nothing is closed for it.
		o.stats.notWhole.Add(1)
		if r.status < 400 {
			own.unknown = ctx.Err() != nil
		} else {
			own.unknown = o.request.Receipts != nil && as == oncekeeper.SettledComplete
		}
		return client.Ended{As: oncekeeper.SettledUnknown, Status: statusOf(r.status)}
	}
	if as != oncekeeper.SettledComplete {
		return client.Ended{As: as, Status: statusOf(r.status)}
	}
	kept := &oncekeeper.Response{
		StatusCode: int32(r.status), ContentType: r.sent.Get("Content-Type"), Metadata: replayable(r.sent, o.replay), Omitted: r.streams,
	}
	if r.streams {
		o.stats.tooLarge.Add(1)
	} else if kept.Body = r.body; kept.Body == nil {
		kept.Body = []byte{} // an empty one, and not none
	}
	return client.Ended{As: as, Response: kept}
}

// give answers with what the request's own attempt gave, where that is the answer.
func (o *operation) give(w http.ResponseWriter, r *http.Request, own answer, result client.Result) {
	var instead *problem
	switch {
	case own.unknown:
		instead = &problem{kind: unknownProblem, delay: unknownDelay, Detail: "The request was stopped before it was done. Ask again with the same Idempotency-Key."}
	case result.Outage == client.OutageReceiptsOnly:
		instead = o.bare(r.Context(), own)
	case oncekeeper.IsRolledBack(own.record.failure) && errors.Is(own.record.failure, oncekeeper.ErrFenced):
		instead = o.notBegun(r.Context(), client.ErrUnavailable) // by the floor of a service that was lost
	case result.Unsettled != nil && o.request.Receipts != nil && result.Ended.As == oncekeeper.SettledComplete && own.record.status >= 400:
		// As with a final failure over gRPC: the next attempt may have the effect.
		o.stats.unavailable.Add(1)
		instead = &problem{kind: unknownProblem, delay: unknownDelay, Detail: "The request was refused, and that could not be kept: the next attempt may be answered otherwise. Ask again with the same Idempotency-Key."}
	}
	if instead == nil {
		own.record.release()
		return
	}
	own.record.abort()
	o.refuse(w, instead)
}

func (o *operation) countOutage(mode client.Outage) {
	switch mode {
	case client.OutageReceiptsOnly:
		o.stats.outageReceipts.Add(1)
	case client.OutageOpen:
		o.stats.outageOpen.Add(1)
	}
}

// superseded says whether another outcome than this attempt's counts. That there
// is no record any more is not that: nothing else is known to have happened, and
// to drop the answer would have the operation run again.
func superseded(err error) bool {
	return errors.Is(err, oncekeeper.ErrFenced) || errors.Is(err, oncekeeper.ErrAlreadySettled)
}
