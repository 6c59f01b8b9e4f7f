// Package transact runs a function once, in a transaction that also writes the
// attempt's receipt: the one algorithm behind every InTx. It decides what is known
// of a transaction from what its database says, and knows no driver.
package transact

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncekeeper/oncekeeper/client/receipt/internal/table"
)

// Database makes transactions of the kind that the function is given.
type Database[Tx any] struct {
	Table *table.Table
	// Begin begins one, on a connection of its own.
	Begin func(context.Context) (Transaction[Tx], error)
	// Explain gives an error of a statement on the table in words of this module,
	// where it has some; otherwise as it came.
	Explain func(context.Context, error) error
	// Fate says what an error of this database means for its transaction; where the
	// error is of Commit, committing.
	Fate func(err error, committing bool) Fate
	// Patience bounds what must not end with the caller's context: the answer of a
	// commit, and looking for one whose answer was lost.
	Patience time.Duration
}

// Transaction is one that was begun. It is ended once, by Commit or Rollback, and
// gives its connection back then.
type Transaction[Tx any] interface {
	table.Querier
	// Tx is what the function is given.
	Tx() Tx
	// Commit waits as long as Patience for its answer, and asks nobody to cancel it.
	// Where the function ended the transaction, it is ErrEnded.
	Commit() error
	// Rollback is ErrEnded where the function ended the transaction. With any other
	// error, or none, nothing of it is left, if not now then when the server notices
	// that its connection is gone.
	Rollback() error
}

// Fate is what an error means for its transaction.
type Fate uint8

const (
	// Refused: nothing is left, and the same again would fail the same.
	Refused Fate = iota
	// Collided: nothing is left, and the same again may well work.
	Collided
	// Busy is Collided with one that is still running: the same works when that ends.
	Busy
	// Lost: the connection broke, or there was no answer. Before its commit was sent,
	// nothing is left.
	Lost
)

var (
	// ErrEnded: the function ended the transaction.
	ErrEnded = errors.New("receipt: the function ended the transaction, which is InTx's to end: whether its effect is there is not known")
	// ErrOwned is what a function gets that tries to.
	ErrOwned = errors.New("receipt: the transaction is InTx's to end: give nil to have it committed, an error to have it rolled back")
	// ErrUnknown: the commit's answer was lost, and so was the way to find out.
	ErrUnknown = errors.New("receipt: whether the transaction was committed is not known")
)

// NotConnected is Begin's error where there was no connection to begin on.
type NotConnected struct{ Err error }

func (e *NotConnected) Error() string { return e.Err.Error() }
func (e *NotConnected) Unwrap() error { return e.Err }

const (
	// maxTries bounds how often a function is run that collides.
	maxTries   = 10
	firstPause = 2 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// fate is Fate, but that a database which cannot be reached is not asked again and
// again.
func (db *Database[Tx]) fate(err error, committing bool) Fate {
	if none := (*NotConnected)(nil); errors.As(err, &none) {
		return Refused
	}
	return db.Fate(err, committing)
}

// pause waits before the next try, the nth (1...), after one that gave last. Where
// ctx ends first it gives that, with last. Whatever collided once would collide again
// without the jitter.
func pause(ctx context.Context, nth int, last error) error {
	most := min(firstPause<<min(nth, 10), maxPause)
	wait := time.NewTimer(most/2 + rand.N(most/2))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if !errors.Is(cause, ctx.Err()) {
			cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return fmt.Errorf("%w: %w", cause, last)
	}
}
