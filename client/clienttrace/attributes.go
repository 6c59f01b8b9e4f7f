package clienttrace

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// The names of attributes.
const (
	operationName  = "oncekeeper.operation"
	keyHashName    = "oncekeeper.key_hash"
	tenantName     = "oncekeeper.tenant"
	keyIDName      = "oncekeeper.key_id"
	resultName     = "oncekeeper.result"
	waitedName     = "oncekeeper.waited"
	attemptName    = "oncekeeper.attempt"
	tokenName      = "oncekeeper.fencing_token"
	takeoverName   = "oncekeeper.takeover"
	settlementName = "oncekeeper.settlement"
	receiptName    = "oncekeeper.receipt"
	unsettledName  = "oncekeeper.unsettled"
	linkName       = "oncekeeper.link"
)

// Attribute is one that spans, or their links, may have.
type Attribute struct{ Name, Help string }

// Attributes lists every attribute of the package's spans.
func Attributes() []Attribute {
	return []Attribute{
		{operationName, "of the key"},
		{keyHashName, "the key, as logs name it"},
		{tenantName, "of the key, with `WithKeys`"},
		{keyIDName, "of the key, with `WithKeys`"},
		{resultName, "what became of it: `granted`, `takeover`, `replayed`, `in_progress`, `unresolved`, `exhausted`, `not_kept`, `mismatch`, `superseded`, `outage_receipts`, `outage_open`, `unavailable`, `refused`, `invalid`, `left`, `failed`"},
		{waitedName, "seconds that another attempt was waited for; not there where none was"},
		{attemptName, "the number of the attempt that was run, or whose outcome was given"},
		{tokenName, "its fencing token"},
		{takeoverName, "it was run after an attempt with no known outcome"},
		{settlementName, "how the attempt that was run ended: `complete`, `final`, `retryable`, `unknown`"},
		{receiptName, "the outcome is what its receipt holds"},
		{unsettledName, "the attempt ran, and the service could not be told how it ended"},
		{linkName, "of a link: how the span met that attempt, as `outcome`, `previous`, `running` or `unresolved`"},
	}
}

// told is what there is to tell of a Run.
type told struct {
	client.Seen
	// left: its caller had left, or had no time any more.
	left bool
}

// attributes are what a Run's span says when it ends.
func attributes(seen told) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String(resultName, result(seen))}
	if seen.Waited > 0 {
		all = append(all, attribute.Float64(waitedName, seen.Waited.Seconds()))
	}
	ran := seen.Result.Ran || seen.Crashed
	switch o := seen.Result.Outcome; {
	case o != nil:
		all = append(all, attribute.Int(attemptName, int(o.Attempt)), attribute.Int64(tokenName, o.Token))
	case seen.Grant != nil && ran:
		all = append(all, attribute.Int(attemptName, int(seen.Grant.Number)), attribute.Int64(tokenName, seen.Grant.Token))
	}
	if ran {
		as := oncekeeper.SettledUnknown
		if !seen.Crashed {
			as = seen.Result.Ended.As
		}
		all = append(all, attribute.String(settlementName, settlements[as]))
		if seen.Grant != nil && seen.Grant.Takeover {
			all = append(all, attribute.Bool(takeoverName, true))
		}
	}
	if seen.Result.Receipt {
		all = append(all, attribute.Bool(receiptName, true))
	}
	if seen.Result.Unsettled != nil {
		all = append(all, attribute.Bool(unsettledName, true))
	}
	return all
}

var settlements = map[oncekeeper.Settlement]string{
	oncekeeper.SettledComplete: "complete", oncekeeper.SettledRetryable: "retryable",
	oncekeeper.SettledFinal: "final", oncekeeper.SettledUnknown: "unknown",
}

// result is what became of a Run, in one word.
func result(seen told) string {
	r := seen.Result
	switch {
	case seen.Err != nil:
		return failure(seen)
	case r.Outcome != nil:
		return replay(r.Outcome)
	case r.Outage == client.OutageReceiptsOnly:
		return "outage_receipts"
	case r.Outage == client.OutageOpen:
		return "outage_open"
	case (r.Ran || seen.Crashed) && seen.Grant != nil && seen.Grant.Takeover:
		return "takeover"
	case r.Ran || seen.Crashed:
		return "granted"
	case r.Unresolved != nil:
		return "unresolved"
	default:
		return "in_progress"
	}
}

func replay(o *oncekeeper.Outcome) string {
	switch {
	case o.Origin == oncekeeper.OriginExhausted:
		return "exhausted"
	case o.Response != nil && o.Response.Omitted:
		return "not_kept"
	default:
		return "replayed"
	}
}

// failures are the errors of a Run that have a word of their own; the first that fits.
var failures = []struct {
	err  error
	word string
}{
	{oncekeeper.ErrFingerprintMismatch, "mismatch"},
	{client.ErrUnavailable, "unavailable"},
	{oncekeeper.ErrUnauthenticated, "refused"},
	{oncekeeper.ErrPermissionDenied, "refused"},
	{oncekeeper.ErrInvalidRequest, "invalid"},
}

func failure(seen told) string {
	if seen.Result.Ran && (errors.Is(seen.Err, oncekeeper.ErrFenced) || errors.Is(seen.Err, oncekeeper.ErrAlreadySettled)) {
		return "superseded"
	}
	if seen.left {
		return "left"
	}
	for _, f := range failures {
		if errors.Is(seen.Err, f.err) {
			return f.word
		}
	}
	return "failed"
}

// statusOf is the status of a span; "" for none. An error's own words are not in it:
// they may be a function's, and hold anything.
func statusOf(seen told) (codes.Code, string) {
	switch word := result(seen); {
	case seen.Crashed:
		return codes.Error, "the function panicked or left its goroutine"
	case word == "left":
		return codes.Unset, ""
	case seen.Err != nil:
		return codes.Error, word
	case seen.Result.Unsettled != nil:
		return codes.Error, "the attempt ran and could not be settled"
	case seen.Result.Ran && seen.Result.Ended.As == oncekeeper.SettledUnknown:
		return codes.Error, "nobody knows whether it took effect"
	default:
		return codes.Unset, ""
	}
}
