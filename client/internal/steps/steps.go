// Package steps holds what the client does next, as pure functions: what Begin
// said, what the receipt says and how the function ended give the next step.
//
// It owns the order of looking, asking, running, closing and settling, and talks
// to nothing. The exhaustive search beside it drives these very functions through
// every interleaving of a small world, so a rule that is changed here is judged
// there.
package steps

import (
	"bytes"
	"math"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// Said is what a Begin was answered.
type Said uint8

const (
	// Granted: run the attempt.
	Granted Said = iota + 1
	// Replayed: an outcome, whole.
	Replayed
	// NotKept: an outcome whose response was too large for the service.
	NotKept
	// InProgress: another attempt runs.
	InProgress
	// Unresolved: an attempt ended with no known outcome, and the key is held.
	Unresolved
	// Mismatch: the key was begun with another fingerprint.
	Mismatch
	// Down: the service gave no verdict.
	Down
)

// Outage is what a call may do where the service gave no verdict.
type Outage uint8

// The outage modes.
const (
	Closed Outage = iota
	ReceiptsOnly
	Open
)

// Asked is a call as its first step is decided.
type Asked struct {
	Said Said
	// Number and Takeover are of a grant.
	Number   int32
	Takeover bool
	Outage   Outage
	// Receipts and Reconciles: there is a store of receipts, and a reconciler.
	Receipts, Reconciles bool
}

// Step is what to do next.
type Step uint8

const (
	// Answer with what Begin said.
	Answer Step = iota + 1
	// Look at the receipt; then AfterLook.
	Look
	// Ask the reconciler; then AfterAsk.
	Ask
	// Run under the grant.
	Run
	// RunBare: run under the receipt alone, with no token.
	RunBare
	// RunOpen: run unguarded.
	RunOpen
	// Replay the receipt's response, and settle nothing.
	Replay
	// CompleteFound: complete with the receipt's response, and replay it.
	CompleteFound
	// CompleteTold: close, complete with the reconciler's response, and replay it.
	CompleteTold
	// Release: close, settle the unresolved attempt as retryable, and begin again.
	Release
	// Unavailable: run nothing, give a grant back as not run, and have the caller come
	// back.
	Unavailable
	// Unknown: run nothing, settle a grant as unknown, and have the caller come back.
	Unknown
	// Refuse: the receipt is of another request. A grant is given back as not run,
	// with the shortest retention.
	Refuse
)

// First gives the first step of a call.
//
// A first attempt does not look: nothing of this life of the key has run, and
// what ran in another is met by InTx's claim, or by closing. From the second on an
// effect may stand.
func First(a Asked) Step {
	switch a.Said {
	case Granted:
		switch {
		case a.Receipts && (a.Takeover || a.Number > 1):
			return Look
		case a.Reconciles && a.Takeover:
			return Ask
		default:
			return Run
		}
	case Unresolved:
		switch {
		case a.Receipts:
			return Look
		case a.Reconciles:
			return Ask
		default:
			return Answer
		}
	case NotKept, Mismatch:
		if a.Receipts {
			return Look
		}
		return Answer
	case Down:
		switch {
		case a.Outage == ReceiptsOnly && a.Receipts:
			return Look
		case a.Outage == Open:
			return RunOpen
		default:
			return Answer
		}
	default:
		return Answer
	}
}

// Finding is what a look at a receipt, or its closing, gave.
type Finding uint8

const (
	// Failed: an error or a time-out, which proves nothing.
	Failed Finding = iota
	// Nothing: no effect, and the claim may have one.
	Nothing
	// Floored: no effect, and a floor keeps the claim from having one.
	Floored
	// Ours: the effect of this request stands.
	Ours
	// Anothers: the effect of another request stands under the key.
	Anothers
)

// Found says what a look gave: row is the receipt, nil for none.
func Found(row *receipt.Receipt, err error, c receipt.Claim) Finding {
	if err != nil {
		return Failed
	}
	switch applied, refusal := receipt.Claimed(row, c); {
	case applied:
		return Ours
	case refusal == nil:
		return Nothing
	case row.InDoubt:
		return Failed
	case row.Applied():
		return Anothers
	default:
		return Floored
	}
}

// FoundClosed says what closing gave. The floor that it set is no finding.
func FoundClosed(row *receipt.Receipt, err error, c receipt.Claim) Finding {
	c.Token = math.MaxInt64
	return Found(row, err, c)
}

// Surely narrows what was found for a call that the service refused as another
// request's: digests of two schemes, which cannot be compared, are no proof that
// the effect is this request's.
func Surely(f Finding, row *receipt.Receipt, c receipt.Claim) Finding {
	if f == Ours && (row.FingerprintScheme != c.FingerprintScheme || !bytes.Equal(row.Fingerprint, c.Fingerprint)) {
		return Anothers
	}
	return f
}

// AfterLook gives the step after a look.
func AfterLook(a Asked, f Finding) Step {
	switch a.Said {
	case Granted:
		return [...]Step{Failed: Unavailable, Nothing: a.orAsk(a.Takeover, Run), Floored: Unavailable, Ours: CompleteFound, Anothers: Refuse}[f]
	case Unresolved:
		return [...]Step{Failed: Unavailable, Nothing: a.orAsk(true, Answer), Floored: a.orAsk(true, Answer), Ours: CompleteFound, Anothers: Refuse}[f]
	case Down:
		return [...]Step{Failed: Unavailable, Nothing: RunBare, Floored: Unavailable, Ours: Replay, Anothers: Refuse}[f]
	case Mismatch:
		return [...]Step{Failed: Unavailable, Nothing: Answer, Floored: Answer, Ours: Replay, Anothers: Answer}[f]
	default: // NotKept: the outcome is known, only its response is not
		return [...]Step{Failed: Answer, Nothing: Answer, Floored: Answer, Ours: Replay, Anothers: Answer}[f]
	}
}

func (a Asked) orAsk(ask bool, otherwise Step) Step {
	if ask && a.Reconciles {
		return Ask
	}
	return otherwise
}

// Told is what a reconciler found.
type Told uint8

// What a reconciler may find.
const (
	CannotTell Told = iota
	Happened
	DidNotHappen
)

// AfterAsk gives the step after the reconciler was asked.
func AfterAsk(s Said, t Told) Step {
	switch {
	case t == Happened:
		return CompleteTold
	case t == DidNotHappen && s == Granted:
		return Run
	case t == DidNotHappen:
		return Release
	case s == Granted:
		return Unknown
	default:
		return Answer
	}
}

// Closes says whether the receipt is closed before an attempt is settled as as,
// where its receipt is not known to be applied. Unknown needs none: it claims
// nothing. Nor does a grant that is given back as not run: it is no attempt, so no
// key is ever given up on its word.
func Closes(as oncekeeper.Settlement, notRun bool) bool {
	return !notRun && (as == oncekeeper.SettledComplete || as == oncekeeper.SettledRetryable || as == oncekeeper.SettledFinal)
}

// Floor is what an attempt closes with: neither it nor one before may apply any
// more, and the next one may.
func Floor(token int64) int64 { return token + 1 }

// Ending is how an attempt is settled once its receipt was closed.
type Ending struct {
	As oncekeeper.Settlement
	// Found: with the receipt's response, which is the answer.
	Found bool
	// Refused: the receipt is another request's.
	Refused bool
	// Unclosed: it is not known whether an effect stands.
	Unclosed bool
}

// AfterClose gives how an attempt is settled that was to be settled as as.
func AfterClose(as oncekeeper.Settlement, f Finding) Ending {
	switch f {
	case Failed:
		return Ending{As: oncekeeper.SettledUnknown, Unclosed: true}
	case Ours:
		return Ending{As: oncekeeper.SettledComplete, Found: true}
	case Anothers:
		return Ending{As: oncekeeper.SettledRetryable, Refused: true}
	default:
		return Ending{As: as}
	}
}

// Settled is what became of a settlement.
type Settled uint8

const (
	// Taken: it stands.
	Taken Settled = iota
	// Superseded: the service says that another outcome counts.
	Superseded
	// Lost: the service could not be told, or knows the key no more.
	Lost
)

// Reply is what the caller of an attempt that ran is given.
type Reply uint8

const (
	// Own: what the function gave.
	Own Reply = iota + 1
	// TheReceipts: the receipt's response.
	TheReceipts
	// Refusal: the key is another request's.
	Refusal
	// Another: another attempt's outcome counts.
	Another
	// ComeBack: it is not known what the outcome will be.
	ComeBack
)

// Replies gives what the caller is given for an attempt that ended as as.
//
// A final failure is given only where it is closed and stands. Otherwise the
// attempt that comes next may have the effect, and a caller who was told that it
// failed for good would not learn of it. A value is given in any case: it tells of
// no effect that is not there, and to withhold it would have the operation asked
// for again.
func Replies(as oncekeeper.Settlement, e Ending, s Settled) Reply {
	switch {
	case e.Found:
		return TheReceipts
	case e.Refused:
		return Refusal
	case s == Superseded:
		return Another
	case as == oncekeeper.SettledFinal && (e.Unclosed || s == Lost):
		return ComeBack
	default:
		return Own
	}
}
