package storage

import (
	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// MaxAnswerBytes is what the answers to Begins applied together hold at the most,
// below what a gRPC client takes in one message unless told otherwise (4 MiB).
const MaxAnswerBytes = 3 << 20

// Answers counts what the answers to one Apply hold, so that every store bounds
// them alike.
type Answers struct {
	alone bool
	bytes int
}

// AnswersTo gives the count for an Apply of n commands; one alone has no bound.
func AnswersTo(n int) Answers { return Answers{alone: n == 1} }

// Full: no further command of the Apply is judged.
func (a *Answers) Full() bool { return !a.alone && a.bytes > MaxAnswerBytes }

// Add counts the answer to cmd, which only a Begin's can fill, and says whether it
// fits. Where it does not, cmd is not applied.
func (a *Answers) Add(cmd lifecycle.Command, rec *oncekeeper.KeyRecord, verdict lifecycle.Verdict) bool {
	if _, ok := cmd.(lifecycle.Begin); ok {
		a.bytes += answerBytes(rec, verdict)
	}
	return !a.Full()
}

// answerOverhead is of an answer beside its parts of any size: moments, numbers, a
// traceparent and what encodes them.
const answerOverhead = 256 + oncekeeper.MaxTraceParentBytes

// answerBytes is about how many bytes the answer to a Begin holds, and not fewer.
func answerBytes(rec *oncekeeper.KeyRecord, verdict lifecycle.Verdict) int {
	switch verdict {
	case lifecycle.Replayed:
		return answerOverhead + ResponseBytes(rec.Response) + StatusBytes(rec.Status)
	case lifecycle.Granted, lifecycle.Unresolved:
		return answerOverhead + len(rec.Checkpoint)
	default:
		return answerOverhead
	}
}

// partOverhead is what encodes one part of a list.
const partOverhead = 16

// ResponseBytes is about how many bytes r holds, and not fewer; 0 for nil.
func ResponseBytes(r *oncekeeper.Response) int {
	if r == nil {
		return 0
	}
	size := len(r.Body) + len(r.ContentType) + len(r.Resource)
	for _, m := range r.Metadata {
		size += partOverhead + len(m.Name) + len(m.Value)
	}
	return size
}

// StatusBytes is about how many bytes s holds, and not fewer; 0 for nil.
func StatusBytes(s *oncekeeper.Status) int {
	if s == nil {
		return 0
	}
	size := len(s.Message)
	for _, d := range s.Details {
		size += partOverhead + len(d)
	}
	return size
}
