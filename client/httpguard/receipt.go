package httpguard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// Response is an answer as a value: what a guarded handler's InTx gives, so that it
// is committed with the effect, and what the handler then writes:
//
//	response, err := sqlreceipt.InTx(r.Context(), receipts, func(ctx context.Context, tx *sql.Tx) (httpguard.Response, error) { … })
//	if err != nil {
//		httpguard.SettleBy(r.Context(), err)
//		http.Error(w, "something failed", http.StatusInternalServerError)
//		return
//	}
//	response.Give(w)
type Response struct {
	// Status is 200 to 599; 0: 200.
	Status int
	// Header is whole for the first caller; what of it is kept, Config.ReplayHeader
	// says.
	Header http.Header
	Body   []byte
}

// Give answers with r.
func (r Response) Give(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.Header)
	w.WriteHeader(r.status())
	if bodyAllowed(r.status()) && len(r.Body) > 0 {
		_, _ = w.Write(r.Body) // that the other end left is no failure
	}
}

func (r Response) status() int {
	if r.Status == 0 {
		return http.StatusOK
	}
	return r.Status
}

// SettleBy says what err says, for a handler that answers with a failure: as
// oncekeeper.Final and oncekeeper.NotApplied marked it (see SettleAs); and where
// oncekeeper.RolledBack did, as InTx does, that nothing was done, unless the route's
// table says something of the status code. Where the request runs unguarded it does
// nothing.
func SettleBy(ctx context.Context, err error) {
	r, ok := runOf(ctx)
	if !ok || err == nil {
		return
	}
	r.record.failed(err)
	switch oncekeeper.SettlementOf(err) {
	case oncekeeper.SettledFinal:
		r.record.settleAs(oncekeeper.SettledComplete)
	case oncekeeper.SettledRetryable:
		r.record.settleAs(oncekeeper.SettledRetryable)
	}
}

// Reconcile says whether the request that q names had its effect: see
// client.Reconcile. The answer goes with client.Happened. The request is the one
// that asks now, with its body whole; its context ends with the reconciler's time.
// An error, which is logged, is client.CannotTell.
type Reconcile func(q client.Question, r *http.Request) (client.Finding, Response, error)

// ReceiptsTell is the Reconcile of an operation whose whole effect is in the
// transaction of its InTx: see client.ReceiptsTell.
func ReceiptsTell(client.Question, *http.Request) (client.Finding, Response, error) {
	return client.DidNotHappen, Response{}, nil
}

// reconcileFor asks the operation's reconciler about one request.
func (o *operation) reconcileFor(r *http.Request, body []byte) client.Reconcile {
	return func(ctx context.Context, q client.Question) (client.Finding, *oncekeeper.Response, error) {
		found, response, err := o.reconcile(q, giveBody(r.Clone(ctx), body))
		if err != nil || found != client.Happened {
			return found, nil, err
		}
		kept, err := codec{o}.Encode(response)
		return found, kept, err
	}
}

// codec keeps an operation's answers in receipts as the guard itself keeps them.
type codec struct{ operation *operation }

var _ receipt.Codec = codec{}

func (c codec) Encode(value any) (*oncekeeper.Response, error) {
	response, ok := value.(Response)
	if !ok {
		return nil, fmt.Errorf("httpguard: InTx gives a %T, and %s answers with an httpguard.Response: what InTx gives is the answer", value, c.operation.name)
	}
	status := response.status()
	if status < 200 || status > 599 {
		return nil, fmt.Errorf("httpguard: InTx of %s gives the status %d, which is none of an answer", c.operation.name, status)
	}
	kept := &oncekeeper.Response{StatusCode: int32(status), Body: []byte{}, Metadata: replayable(response.Header, c.operation.replay)}
	if bodyAllowed(status) {
		kept.Body = append(kept.Body, response.Body...)
	}
	kept.ContentType = guessed(response.Header, kept.Body)
	return kept, nil
}

func (c codec) Decode(kept *oncekeeper.Response, into any) error {
	to, ok := into.(*Response)
	if !ok || to == nil {
		return fmt.Errorf("%w: InTx takes it as a %T, and %s answers with an httpguard.Response", client.ErrUndecodable, into, c.operation.name)
	}
	if !answerable(kept) {
		return fmt.Errorf("%w: the receipt holds no answer of HTTP", client.ErrUndecodable)
	}
	*to = Response{Status: int(kept.StatusCode), Header: http.Header{"Content-Type": nil}, Body: kept.Body}
	if kept.ContentType != "" {
		to.Header.Set("Content-Type", kept.ContentType)
	}
	setReplayed(to.Header, kept.Metadata)
	return nil
}

// guessed gives the content type that header names, or that net/http would find
// where it names none.
func guessed(header http.Header, body []byte) string {
	if _, named := header["Content-Type"]; named || len(body) == 0 || header.Get("Content-Encoding") != "" {
		return header.Get("Content-Type")
	}
	return http.DetectContentType(body)
}

// giveReceipt answers with what the attempt's receipt holds, which counts whatever
// the handler wrote. Where it wrote just that, its caller has the whole header.
func (o *operation) giveReceipt(w http.ResponseWriter, r *http.Request, own answer, kept *oncekeeper.Response) {
	switch {
	case own.record.says(kept):
		own.record.release()
	case !answerable(kept):
		own.record.abort()
		o.stats.notKept.Add(1)
		o.faults.Report(r.Context(), o.name, "a receipt is no answer of HTTP", errNoAnswer)
		o.refuse(w, notKept(kept))
	default:
		own.record.abort()
		give(w, kept, false)
	}
}

// says whether what was written is what was kept.
func (r *recorder) says(kept *oncekeeper.Response) bool {
	sum := sha256.Sum256(kept.Body)
	return r.status == int(kept.StatusCode) && r.whole() && r.sent.Get("Content-Type") == kept.ContentType &&
		r.written == int64(len(kept.Body)) && bytes.Equal(r.sum.Sum(nil), sum[:])
}

// bare says why an attempt that failed under its receipt alone was refused by it;
// nil: it was not.
func (o *operation) bare(ctx context.Context, own answer) *problem {
	switch {
	case errors.Is(own.record.failure, oncekeeper.ErrFenced):
		return o.notBegun(ctx, client.ErrUnavailable)
	case errors.Is(own.record.failure, oncekeeper.ErrFingerprintMismatch):
		return o.notBegun(ctx, oncekeeper.ErrFingerprintMismatch)
	default:
		return nil
	}
}
