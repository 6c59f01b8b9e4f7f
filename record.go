package oncekeeper

import (
	"fmt"
	"time"
)

// Limits of what a Begin or a Renew carries, in bytes.
const (
	MaxFingerprintBytes = 64
	MaxSchemeBytes      = 16
	MaxCallIDBytes      = 64
	MaxHolderBytes      = 128
	MaxCheckpointBytes  = 4 << 10
	// MaxPrincipalBytes bounds the name of who calls, which the server knows.
	MaxPrincipalBytes = 128
	// MaxTraceParentBytes is the length of a W3C traceparent, version 00.
	MaxTraceParentBytes = 55
)

// StoredState is what is written of a record's state. Whether a pending record
// is live or lapsed is a question of time: see State.
type StoredState uint8

// The stored states. What moves a record between them is lifecycle's.
const (
	// StoredPending: an attempt was granted. Begin moves a record in; Complete,
	// Fail and an operator move it out.
	StoredPending StoredState = 1
	// StoredReleased: the last attempt is known to have done nothing. A
	// retryable Fail and an operator move a record in; Begin moves it out.
	StoredReleased StoredState = 2
	// StoredCompleted: it ran, and its response is replayed. Complete and an
	// operator move a record in; only deletion and expiry end it.
	StoredCompleted StoredState = 3
	// StoredFailed: its failure is the answer and is replayed. A final Fail, an
	// operator, and a Begin that finds the attempts used up move a record in.
	StoredFailed StoredState = 4
)

// Settlement is what an attempt's holder last said of it.
type Settlement uint8

// The settlements.
const (
	// SettledNot: nothing yet.
	SettledNot Settlement = 0
	// SettledComplete: it ran; here is the response.
	SettledComplete Settlement = 1
	// SettledRetryable: known not to have happened; the next Begin runs.
	SettledRetryable Settlement = 2
	// SettledFinal: the failure is the answer.
	SettledFinal Settlement = 3
	// SettledUnknown: nobody knows whether the effect happened.
	SettledUnknown Settlement = 4
)

// Grant is what a Begin is given for one attempt, within policy; it is stored
// with the record and holds until the next grant.
type Grant struct {
	// Lease is how long the attempt may go unheard of.
	Lease time.Duration
	// Retention is how long the record is kept once settled.
	Retention time.Duration
	// UnsettledRetention is how long after its lease an attempt with no known
	// outcome is remembered at the least.
	UnsettledRetention time.Duration
	// MaxAttempts before the key is given up; 0: no limit.
	MaxAttempts int32
	// Hold keeps a key whose attempt ended with no known outcome until someone
	// resolves it. Otherwise the next Begin takes over.
	Hold bool
}

// KeyRecord is all that is known of a key. Values are shared between rooms and
// never changed in place: a change makes a new one.
type KeyRecord struct {
	Key   Key
	State StoredState
	// Token is the fencing token: it names the last attempt (or the resolution or
	// deletion since), is at least 1, and only grows, across a swept record too.
	Token int64
	// Revision counts the changes of this life of the key.
	Revision int64

	Fingerprint       []byte
	FingerprintScheme string
	// AnyFingerprint: a deleted key, which any fingerprint fits.
	AnyFingerprint bool

	// CallID is the last granted Begin call's.
	CallID string
	// Attempt is the number of attempts granted in this life, or since an operator
	// released or deleted the key, but those that were not run.
	Attempt int32
	// Takeover: some attempt of this life ended with no known outcome.
	Takeover bool
	// Granted is what the last attempt was given.
	Granted Grant
	Holder  string
	// Principal is who began the last attempt, as the server knows it; empty where
	// anyone may call.
	Principal string
	// TraceParent is the W3C traceparent of the span in which the last attempt was
	// begun; empty where its Begin named none. It decides nothing.
	TraceParent string
	// Checkpoint is what an attempt saved with Renew.
	Checkpoint []byte

	Created  Instant
	LeaseEnd Instant
	// UnsettledUntil is before when a record with an unknown outcome in its life
	// does not expire. No grant shortens it.
	UnsettledUntil Instant
	// Expires is when the record is gone, swept or not; zero: never.
	Expires Instant

	// Last is what the holder of the last attempt last said, kept beside the
	// state so that saying it again is no error. On a pending record it is the
	// flag that the attempt is over: the clock alone may step back.
	Last Settlement
	// NotRun: the last attempt's holder gave it back, released and not run. It is not
	// counted in Attempt: see LastAttempt.
	NotRun bool
	// Response and Status are what was last settled with: the outcome of a
	// completed or failed record, and otherwise to be read only.
	Response *Response
	Status   *Status
	Origin   Origin
	// Settled is when.
	Settled Instant

	// History is what the key went through before, oldest first and at most
	// MaxHistory entries: what the record itself does not say any more. Of the last
	// attempt it says nothing until another hand takes the key: see lifecycle.History.
	History []HistoryEntry
}

// Etag names this version of the record; every change makes another.
func (r *KeyRecord) Etag() string { return fmt.Sprintf("%d-%d", r.Token, r.Revision) }

// Outcome gives what a replay answers, or nil unless completed or failed.
func (r *KeyRecord) Outcome() *Outcome {
	if r.State != StoredCompleted && r.State != StoredFailed {
		return nil
	}
	return r.LastOutcome()
}

// LastAttempt is the number of the attempt that Token names, whether it is counted or
// not; 0 after a release or a deletion by an operator.
func (r *KeyRecord) LastAttempt() int32 {
	if r.NotRun {
		return r.Attempt + 1
	}
	return r.Attempt
}

// LastOutcome gives the outcome, or for a released or unknown attempt what its
// holder said, to be read; nil where nothing was said.
func (r *KeyRecord) LastOutcome() *Outcome {
	if r.Response == nil && r.Status == nil {
		return nil
	}
	o := &Outcome{
		Response: r.Response, Status: r.Status, Origin: r.Origin,
		Token: r.Token, Attempt: r.LastAttempt(), Settled: r.Settled, Expires: r.Expires,
	}
	if r.Origin != OriginOperator { // the last attempt's trace knows nothing of an operator's word
		o.TraceParent = r.TraceParent
	}
	return o
}

// State is a record's state as read at a moment.
type State uint8

// The states as read.
const (
	// StatePending: an attempt holds a live lease.
	StatePending State = 1
	// StateAbandoned: the last attempt ended with no known outcome; the next
	// Begin takes over.
	StateAbandoned State = 2
	// StateUnresolved: the same, and the key is held until it is resolved.
	StateUnresolved State = 3
	// StateReleased: the last attempt did nothing; the next Begin runs.
	StateReleased State = 4
	// StateCompleted: the response is replayed.
	StateCompleted State = 5
	// StateFailed: the failure is replayed.
	StateFailed State = 6
)

var stateNames = [...]string{"UNSPECIFIED", "PENDING", "ABANDONED", "UNRESOLVED", "RELEASED", "COMPLETED", "FAILED"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}
