package httpguard

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/internal/headerkey"
)

// Option changes how one operation is guarded.
type Option func(*operation)

// WithOptionalKey lets a request without a key run unguarded, and counts it.
// Default: it is refused, since a caller that forgot its key would be charged
// twice without anybody's noticing.
func WithOptionalKey() Option { return func(o *operation) { o.required = false } }

// WithStatus says what answers with these status codes are settled as:
// oncekeeper.SettledComplete (kept and replayed), SettledRetryable (nothing was
// done) or SettledUnknown. A 2xx is always kept and cannot be named. On a takeover
// a 4xx that may be an earlier attempt's doing stays unknown all the same:
// WithTakeoverStatus says otherwise.
func WithStatus(as oncekeeper.Settlement, statuses ...int) Option {
	return func(o *operation) { set(&o.table.changed, as, statuses) }
}

// WithTakeoverStatus is WithStatus for attempts that took over, and wins there.
func WithTakeoverStatus(as oncekeeper.Settlement, statuses ...int) Option {
	return func(o *operation) { set(&o.table.onTakeover, as, statuses) }
}

func set(named *map[int]oncekeeper.Settlement, as oncekeeper.Settlement, statuses []int) {
	if *named == nil {
		*named = map[int]oncekeeper.Settlement{}
	}
	for _, status := range statuses {
		(*named)[status] = as
	}
}

// WithReplayHeader names more headers that are kept and replayed: see
// Config.ReplayHeader.
func WithReplayHeader(names ...string) Option {
	return func(o *operation) { o.named = append(o.named, names...) }
}

// WithMaxRequestBytes stands for Config.MaxRequestBytes.
func WithMaxRequestBytes(n int64) Option { return func(o *operation) { o.maxRequestBytes = n } }

// WithWait stands for Config.Wait. Zero or less: not at all.
func WithWait(d time.Duration) Option {
	return func(o *operation) { o.request.Wait = max(0, d) }
}

// WithLease is how long an attempt may go unheard of; default and maximum are the
// policy's.
func WithLease(d time.Duration) Option { return func(o *operation) { o.request.Lease = d } }

// WithRetention is how long an answer is kept; default and maximum are the
// policy's.
func WithRetention(d time.Duration) Option { return func(o *operation) { o.request.Retention = d } }

// WithHold keeps a key, after an attempt with no known outcome, until someone
// resolves it, rather than let the next request take over.
func WithHold() Option { return func(o *operation) { o.request.Hold = true } }

// WithMaxAttempts gives a key up after so many attempts, within policy.
func WithMaxAttempts(n int32) Option { return func(o *operation) { o.request.MaxAttempts = n } }

// WithMaxRunTime ends the context of a handler after so long. Default:
// client.DefaultMaxRunTime.
func WithMaxRunTime(d time.Duration) Option { return func(o *operation) { o.request.MaxRunTime = d } }

// WithoutReceipts is for an operation whose effect is not in a transaction of InTx,
// where Config.Receipts are of others: a receipt that is not there would say of it
// that nothing happened.
func WithoutReceipts() Option { return func(o *operation) { o.request.Receipts = nil } }

// WithOutage says what to do where Oncekeeper gives no verdict. Default:
// client.OutageClosed, which is 503.
func WithOutage(mode client.Outage) Option { return func(o *operation) { o.request.Outage = mode } }

// WithReconcile asks f where nobody knows what became of an attempt.
func WithReconcile(f Reconcile) Option { return func(o *operation) { o.reconcile = f } }

// operation is how requests of one operation are guarded.
type operation struct {
	*Guard
	name            string
	required        bool
	maxRequestBytes int64
	// named are headers to replay beside the Config's, and replay all of them.
	named, replay []string
	table         table
	// request is what every request asks for, but the key, the digest and what
	// depends on them.
	request   client.Request
	reconcile Reconcile
}

func newOperation(g *Guard, name string, options []Option) (*operation, error) {
	o := &operation{
		Guard: g, name: name, required: true, maxRequestBytes: g.cfg.MaxRequestBytes,
		request: client.Request{FingerprintScheme: Scheme, Wait: max(0, g.cfg.Wait), Receipts: g.cfg.Receipts},
	}
	for _, option := range options {
		option(o)
	}
	var faults []error
	if name == "" || len(name) > oncekeeper.MaxOperationBytes || !utf8.ValidString(name) {
		faults = append(faults, fmt.Errorf("it is named by 1 to %d bytes of UTF-8", oncekeeper.MaxOperationBytes))
	}
	if o.maxRequestBytes <= 0 {
		faults = append(faults, errors.New("WithMaxRequestBytes is not above zero"))
	}
	if o.request.Lease < 0 || o.request.Retention < 0 || o.request.MaxAttempts < 0 || o.request.MaxRunTime < 0 {
		faults = append(faults, errors.New("lease, retention, attempts and run time are not below zero: leave them out for the policy's defaults"))
	}
	if o.request.Outage > client.OutageOpen {
		faults = append(faults, fmt.Errorf("%d is no outage mode", o.request.Outage))
	}
	if o.request.Outage == client.OutageReceiptsOnly && o.request.Receipts == nil {
		faults = append(faults, fmt.Errorf("outage mode %q needs Config.Receipts", o.request.Outage))
	}
	o.request.AnswerFirst = g.cfg.AnswerFirst && o.request.Receipts != nil && !o.request.Hold
	replay, err := readNames(slices.Concat(alwaysReplayed, g.cfg.ReplayHeader, o.named))
	o.replay = replay
	if err := errors.Join(append(faults, err, o.table.check())...); err != nil {
		return nil, fmt.Errorf("httpguard: the operation %q: %w", name, err)
	}
	return o, nil
}

// keyField is how a refusal calls what carries the key.
const keyField = headerkey.Name
