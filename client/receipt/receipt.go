// Package receipt ties an operation's effect to the record of it, where the
// effect is in a database of the caller's own.
//
// A service that stands apart from the business database cannot commit with it:
// between the business commit and the record of it the process may die. So the
// handler's transaction also writes a receipt, one row a key, which holds what was
// answered. Whoever takes over, gives up, or finds the service gone asks the
// receipt first. For what that transaction holds, and for as long as the receipt
// is kept, losing the service costs no duplicate.
//
// This package owns the rules of a receipt's life, as pure functions, and what a
// store of receipts promises. The stores are in pgxreceipt and sqlreceipt, where
// InTx is what a handler calls; when to look and when to close is the client
// package's. It knows no database and no service.
package receipt

import (
	"context"
	"errors"
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// Claim is what an attempt shows to write a receipt.
type Claim struct {
	Key oncekeeper.Key
	// Token is the attempt's fencing token. 0: the service could not be asked, and
	// the receipt alone keeps the operation from running twice.
	Token int64
	// FingerprintScheme and Fingerprint are of the request.
	FingerprintScheme string
	Fingerprint       []byte
}

// Receipt is the row of a key: applied, with what was answered, or no more than a
// floor, below which no attempt may apply it.
type Receipt struct {
	Key               oncekeeper.Key
	FingerprintScheme string
	Fingerprint       []byte
	// Floor is the least token that may still apply; 0: none was set.
	Floor int64
	// Response is what was answered, byte for byte; nil: not applied.
	Response *oncekeeper.Response
	// Token is of the attempt that applied it, 0 also where none could be had.
	Token int64
	// InDoubt: a function ended its transaction by hand, so that the row was
	// committed without its response. Whether the effect is there it does not say.
	InDoubt bool
	// Written is when it was applied, or last closed, by the database's clock.
	Written time.Time
}

// Applied says whether the effect is there.
func (r *Receipt) Applied() bool { return r != nil && r.Response != nil }

// Store keeps receipts in the business database, on its primary. Implementations
// are safe for use by many goroutines. Every method ends with its context, but
// that a Close which has sent its commit may wait longer for the answer, within bounds of
// its own. Its errors are ErrNoTable, ErrInDoubt (of Look and Close), a context's, or the
// database's own.
type Store interface {
	// Look reads the receipt of key, without a lock. Nil: there is none that was
	// committed.
	Look(ctx context.Context, key oncekeeper.Key) (*Receipt, error)
	// Close applies Closed in a transaction of its own, which waits for one that is
	// applying the key, and gives the row as it is then: applied, where that one
	// was, and nothing is changed; else with at least that floor. An error proves
	// nothing of either.
	Close(ctx context.Context, c Claim, floor int64) (*Receipt, error)
	// Old gives up to limit receipts last written before, in the order of keys,
	// behind the key after (zero: from the first), with no responses read.
	Old(ctx context.Context, before time.Time, after oncekeeper.Key, limit int) ([]Receipt, error)
	// Delete forgets the receipt of key, if it was last written before; false where
	// there is no such row.
	Delete(ctx context.Context, key oncekeeper.Key, before time.Time) (bool, error)
}

// Errors of stores and of InTx, beside oncekeeper.ErrFenced (the claim's token is
// below the floor, or it has none where there is a floor) and
// oncekeeper.ErrFingerprintMismatch (the receipt is of another request).
var (
	// ErrNoTable: the database has no table of receipts.
	ErrNoTable = errors.New("receipt: the table oncekeeper_receipts is missing: create it with the SQL that `oncekeeper receipt schema` prints")
	// ErrInDoubt: a function ended InTx's transaction by hand, and so committed it
	// without its response. Nothing runs under the key until someone has looked.
	ErrInDoubt = errors.New("receipt: the transaction of this key was ended by its own function, and nothing says whether the effect is there: look for it, mend what is to be mended, then forget the receipt with `oncekeeper receipt delete`")
	// ErrTwice: an attempt has one receipt, so it has one transaction.
	ErrTwice = errors.New("receipt: InTx was called a second time in one attempt: put all that must happen once into one call")
)

const (
	// DefaultHorizon is how long a receipt is kept at least, where a store says
	// nothing else. A sweep deletes only what the service has no record of, and by its
	// default policy it keeps none longer than the 30 days of an unsettled one: half
	// as long again leaves time to notice that the service lost its records. Whoever
	// replays older requests against a service that may have lost them sets more.
	DefaultHorizon = 45 * 24 * time.Hour
	// DefaultPatience bounds how long the answer of a commit is waited for, and as
	// long again how long a commit without one is looked for.
	DefaultPatience = 10 * time.Second
)
