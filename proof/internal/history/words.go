package history

import (
	"fmt"
	"strings"

	"github.com/oncekeeper/oncekeeper"
)

// Asked gives the question in words.
func (o *Operation) Asked() string {
	switch {
	case o.Begin != nil:
		text := fmt.Sprintf("Begin(call %s, %s:%s, lease %v", orNone(o.Begin.CallID), o.Begin.FingerprintScheme, o.Begin.Fingerprint, o.Begin.Grant.Lease)
		if o.Begin.Grant.Hold {
			text += ", hold"
		}
		if o.Wait > 0 {
			text += fmt.Sprintf(", wait %v", o.Wait)
		}
		return text + ")"
	case o.Renew != nil:
		return fmt.Sprintf("Renew(%d, lease %v, checkpoint %q)", o.Renew.Token, o.Renew.Lease, o.Renew.Checkpoint)
	case o.Settle != nil:
		return fmt.Sprintf("%s(%d, %s)", settlement(o.Settle.As), o.Settle.Token, said(o.Settle.Response, o.Settle.Status))
	case o.Resolve != nil:
		return fmt.Sprintf("Resolve(%s, %s, force %v)", o.Resolve.Etag, said(o.Resolve.Response, o.Resolve.Status), o.Resolve.Force)
	case o.Delete != nil:
		return fmt.Sprintf("Delete(%s, force %v)", o.Delete.Etag, o.Delete.Force)
	default:
		return "Get"
	}
}

// Told gives the answer in words.
func (o *Operation) Told() string {
	a := o.Answer
	if a == nil {
		return "not known (" + o.Lost + ")"
	}
	text := a.Verdict.String()
	switch {
	case a.Record != nil:
		r := a.Record
		return fmt.Sprintf("%s %v %s by %q, attempt %d, lease until %d, %s", text, r.State, r.Etag, r.Fingerprint, r.Attempt, r.LeaseEnd, outcome(r.Outcome))
	case a.Outcome != nil:
		return text + " " + outcome(a.Outcome)
	case o.Begin != nil:
		text += fmt.Sprintf(" token %d, attempt %d, lease until %d", a.Token, a.Attempt, a.LeaseEnd)
		if a.Takeover {
			text += ", takeover"
		}
	}
	return text
}

func (o *Operation) String() string {
	return fmt.Sprintf("#%d client %d on %s: %s -> %s", o.ID, o.Client, o.Key, o.Asked(), o.Told())
}

func settlement(as oncekeeper.Settlement) string {
	return [...]string{"?", "Complete", "Fail retryable", "Fail final", "Fail unknown"}[as]
}

func said(response *oncekeeper.Response, status *oncekeeper.Status) string {
	switch {
	case response != nil:
		return fmt.Sprintf("%q", response.Body)
	case status != nil:
		return fmt.Sprintf("status %d %q", status.Code, status.Message)
	default:
		return "nothing"
	}
}

func outcome(o *oncekeeper.Outcome) string {
	if o == nil {
		return "no outcome"
	}
	return fmt.Sprintf("%s of %d at %d until %d", said(o.Response, o.Status), o.Token, o.Settled, o.Expires)
}

func orNone(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return "none"
	}
	return s
}
