package lifecycle

import (
	"fmt"

	"github.com/oncekeeper/oncekeeper"
)

// Verdict is what the rules answer to a command. Every field of the answer
// beyond it is read from the record that comes with it.
type Verdict uint8

// The verdicts of Begin, and what a caller does.
const (
	// Granted: run the attempt.
	Granted Verdict = iota + 1
	// Replayed: it is settled; the record holds the outcome.
	Replayed
	// InProgress: another attempt is running; come back.
	InProgress
	// Unresolved: it may have run, and the key is held.
	Unresolved
	// Mismatch: the key was begun with another fingerprint.
	Mismatch
)

// The verdicts of the other commands that change a record.
const (
	// Renewed: the lease is extended.
	Renewed Verdict = iota + 16
	// Settled: the settlement stands, now or already.
	Settled
	// Resolved: the operator's word stands.
	Resolved
	// Deleted: what was known of the key is forgotten.
	Deleted
)

// The refusals.
const (
	// NotFound: no record, or it expired.
	NotFound Verdict = iota + 32
	// Fenced: another token has the key.
	Fenced
	// AlreadySettled: the attempt, call or record is over, settled otherwise.
	AlreadySettled
	// EtagMismatch: the record changed since the etag was read.
	EtagMismatch
	// Live: an operator may not touch a running attempt without force.
	Live
	// Unreadable: a newer version wrote a state that this one does not know.
	// Such a key is busy, never free.
	Unreadable
)

var verdicts = map[Verdict]struct {
	name    string
	refusal error
}{
	Granted:        {"granted", nil},
	Replayed:       {"replayed", nil},
	InProgress:     {"in_progress", nil},
	Unresolved:     {"unresolved", nil},
	Mismatch:       {"mismatch", oncekeeper.ErrFingerprintMismatch},
	Renewed:        {"renewed", nil},
	Settled:        {"settled", nil},
	Resolved:       {"resolved", nil},
	Deleted:        {"deleted", nil},
	NotFound:       {"not_found", oncekeeper.ErrKeyNotFound},
	Fenced:         {"fenced", oncekeeper.ErrFenced},
	AlreadySettled: {"already_settled", oncekeeper.ErrAlreadySettled},
	EtagMismatch:   {"etag_mismatch", oncekeeper.ErrEtagMismatch},
	Live:           {"live", oncekeeper.ErrInProgress},
	Unreadable:     {"unreadable", oncekeeper.ErrStoreUnavailable},
}

// Err gives the sentinel of a refusal, and nil for every other verdict.
func (v Verdict) Err() error { return verdicts[v].refusal }

func (v Verdict) String() string {
	if known, ok := verdicts[v]; ok {
		return known.name
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}
