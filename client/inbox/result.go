package inbox

import (
	"errors"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// Verdict is what is to become of a message.
type Verdict uint8

const (
	// Handled: this call handled it. Acknowledge.
	Handled Verdict = iota + 1
	// Duplicate: it was handled before. Acknowledge.
	Duplicate
	// Later: it was not done with. Have it delivered again after Result.Delay.
	Later
	// DeadLetter: it will not be handled as it is, for Result.Reason. Put it where
	// someone looks, and acknowledge.
	DeadLetter
)

func (v Verdict) String() string {
	switch v {
	case Handled:
		return "handled"
	case Duplicate:
		return "duplicate"
	case Later:
		return "later"
	case DeadLetter:
		return "dead letter"
	default:
		return "no verdict"
	}
}

// Reason is why a message is to come later or is a dead letter.
type Reason uint8

const (
	// NoReason: it was handled.
	NoReason Reason = iota

	// InProgress, with Later: another consumer has it. Nothing was run, and no
	// attempt is counted.
	InProgress
	// Failed, with Later: the handler failed, and may succeed.
	Failed
	// Unavailable, with Later: Oncekeeper or the receipts could not be asked, or the
	// context ended. An attempt is counted where one had been granted by then.
	Unavailable

	// Exhausted, with DeadLetter: its attempts are used up.
	Exhausted
	// Unresolved, with DeadLetter: an attempt ended and nobody knows whether its
	// effect stands; the key is held. Once someone has resolved it, the message may
	// be delivered again.
	Unresolved
	// Final, with DeadLetter: a handler said that it never will succeed.
	Final
	// Refused, with DeadLetter: its id is no key's, or another message had it before.
	Refused
)

func (r Reason) String() string {
	return [...]string{"", "in progress", "failed", "unavailable", "exhausted", "unresolved", "final", "refused"}[min(r, Refused)]
}

// Result is what became of one delivery.
type Result struct {
	Verdict Verdict
	// Reason of Later and of DeadLetter.
	Reason Reason
	// Delay until the next delivery, with Later.
	Delay time.Duration
	// Err says more of Later and of DeadLetter: the handler's own error, a replay of
	// an earlier one's as a *client.FailedError, or one that Is the sentinel.
	Err error
}

// attempted is what is known of the attempt that a call ran.
type attempted struct {
	// number of the attempt; 0: none was run.
	number int32
	err    error
	// hold: a message is held where the outcome of an attempt is unknown.
	hold bool
}

// by notes that a's handler gave err, and gives how the attempt ended.
func (a *attempted) by(of *client.Attempt, err error) client.Ended {
	a.number, a.err = of.Number(), err
	if err == nil {
		return client.Ended{As: oncekeeper.SettledComplete, Response: &oncekeeper.Response{}}
	}
	return client.EndedBy(err)
}

// judge gives what became of a message of which Run gave result and err. A delay is
// what the service asks for.
func judge(result client.Result, err error, ran attempted) Result {
	switch {
	case errors.Is(err, client.ErrNotRun):
		// Why it was not may be an error of another key's, and says nothing of this one's.
		delay, _ := client.RetryDelay(err)
		return Result{Verdict: Later, Reason: Unavailable, Delay: delay, Err: err}
	case errors.Is(err, oncekeeper.ErrFingerprintMismatch), errors.Is(err, oncekeeper.ErrInvalidRequest) && aboutID(err):
		return Result{Verdict: DeadLetter, Reason: Refused, Err: err}
	case errors.Is(err, oncekeeper.ErrFenced), errors.Is(err, oncekeeper.ErrAlreadySettled), errors.Is(err, client.ErrNested):
		// Another attempt's outcome counts, and the next delivery is told it.
		return Result{Verdict: Later, Reason: InProgress, Err: err}
	case err != nil:
		delay, _ := client.RetryDelay(err)
		return Result{Verdict: Later, Reason: Unavailable, Delay: delay, Err: err}
	case result.Outcome != nil:
		return judgeOutcome(result.Outcome)
	case result.Ran && result.Outage == client.OutageReceiptsOnly && result.Ended.As == oncekeeper.SettledFinal:
		// It is kept nowhere, and nothing keeps an attempt before it from committing yet.
		return Result{Verdict: Later, Reason: Unavailable, Err: oncekeeper.Past(ran.err)}
	case result.Ran:
		return judgeRun(result.Ended.As, ran)
	case result.Unresolved != nil:
		return Result{Verdict: DeadLetter, Reason: Unresolved, Err: oncekeeper.ErrUnresolved}
	case result.InProgress != nil:
		return Result{Verdict: Later, Reason: InProgress, Delay: result.InProgress.RetryDelay, Err: oncekeeper.ErrInProgress}
	default:
		return Result{Verdict: Later, Reason: InProgress, Err: oncekeeper.ErrInProgress}
	}
}

// judgeOutcome reads an earlier attempt's outcome. One of a kind that this version
// does not know is asked for again: a newer one may know.
func judgeOutcome(o *oncekeeper.Outcome) Result {
	switch {
	case o.Response != nil:
		return Result{Verdict: Duplicate}
	case o.Status == nil:
		return Result{Verdict: Later, Reason: Unavailable, Err: client.ErrUndecodable}
	case o.Origin == oncekeeper.OriginExhausted:
		return Result{Verdict: DeadLetter, Reason: Exhausted, Err: &client.FailedError{Outcome: o}}
	default:
		return Result{Verdict: DeadLetter, Reason: Final, Err: &client.FailedError{Outcome: o}}
	}
}

// judgeRun reads how the attempt ended that this call ran. That it could not be
// settled changes nothing: the effect is what it is.
func judgeRun(as oncekeeper.Settlement, ran attempted) Result {
	told := oncekeeper.Past(ran.err) // its mark spoke for that attempt
	switch {
	case as == oncekeeper.SettledComplete:
		return Result{Verdict: Handled}
	case as == oncekeeper.SettledFinal:
		return Result{Verdict: DeadLetter, Reason: Final, Err: told}
	case as == oncekeeper.SettledUnknown && ran.hold:
		return Result{Verdict: DeadLetter, Reason: Unresolved, Err: errors.Join(oncekeeper.ErrUnresolved, told)}
	default:
		return Result{Verdict: Later, Reason: Failed, Err: told}
	}
}

// aboutID says whether the message's id is what is wrong, and not what every message
// has, such as the subscriber's name: that is a fault to mend, and no message is lost
// for it.
func aboutID(err error) bool {
	violations := client.FieldViolations(err)
	for _, v := range violations {
		if v.Field != "key.id" {
			return false
		}
	}
	return len(violations) > 0
}
