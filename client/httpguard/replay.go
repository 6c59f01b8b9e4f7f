package httpguard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/oncekeeper/oncekeeper"
)

var errNoAnswer = errors.New("it has neither a response of HTTP nor a status")

// replayOf gives the answer of an earlier attempt.
func (o *operation) replayOf(w http.ResponseWriter, r *http.Request, outcome *oncekeeper.Outcome) {
	kept := outcome.Response
	switch {
	case outcome.Status != nil && outcome.Origin == oncekeeper.OriginExhausted:
		o.stats.exhausted.Add(1)
		o.refuse(w, &problem{kind: exhaustedProblem, Detail: "No further attempt is made. The last one gave: " + outcome.Status.Message})
	case outcome.Status != nil:
		o.stats.replayed.Add(1)
		o.refuse(w, failed(outcome.Status))
	case kept == nil:
		o.stats.unavailable.Add(1)
		o.faults.Report(r.Context(), o.name, "an outcome is of a kind that this version does not know", errNoAnswer)
		o.refuse(w, &problem{kind: faultProblem, Detail: "The outcome is of a kind that this version of the guard does not know."})
	case kept.Omitted:
		o.stats.notKept.Add(1)
		o.refuse(w, notKept(kept))
	case !answerable(kept):
		o.stats.notKept.Add(1)
		o.faults.Report(r.Context(), o.name, "a kept response is no answer of HTTP", errNoAnswer)
		o.refuse(w, notKept(kept))
	default:
		o.stats.replayed.Add(1)
		give(w, kept, true)
	}
}

// answerable says whether a kept response can be an answer. One with no status
// code was resolved by an operator, who said no more than its body.
func answerable(kept *oncekeeper.Response) bool {
	return kept.StatusCode == 0 || kept.StatusCode >= 200 && kept.StatusCode <= 599
}

// give answers with a kept response, byte for byte.
func give(w http.ResponseWriter, kept *oncekeeper.Response, replayed bool) {
	status := int(kept.StatusCode)
	if status == 0 {
		status = http.StatusOK
	}
	h := w.Header()
	setReplayed(h, kept.Metadata)
	// With none, net/http is kept from guessing one: the first caller got none.
	h["Content-Type"] = nil
	if kept.ContentType != "" && isValue(kept.ContentType) {
		h.Set("Content-Type", kept.ContentType)
	}
	if replayed {
		h.Set(replayedHeader, "true")
	}
	w.WriteHeader(status)
	if bodyAllowed(status) && len(kept.Body) > 0 {
		_, _ = w.Write(kept.Body)
	}
}

// failed gives a kept failure that was no answer of HTTP.
func failed(kept *oncekeeper.Status) *problem {
	status := httpOf(kept.Code)
	return &problem{kind: kind{status: status, uri: failedType, title: http.StatusText(status)}, replayed: true, Detail: kept.Message}
}

// notKept is the refusal of a request that ran and whose answer cannot be given.
func notKept(kept *oncekeeper.Response) *problem {
	detail := "The request took effect, and its answer was too large to keep. It is not run again, and a new key would repeat the effect."
	if kept.Resource != "" {
		detail += fmt.Sprintf(" See %s.", kept.Resource)
	}
	return &problem{kind: notKeptProblem, Resource: kept.Resource, ResponseStatus: kept.StatusCode, Detail: detail}
}
