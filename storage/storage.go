// Package storage is the contract between the server and what keeps its
// records. A store applies lifecycle's rules and adds none; what it owns is
// durability, order, and the clock.
//
// storagetest proves each line of this contract, and every store passes it. A
// store's errors are the root package's sentinels, wrapped: ErrOverloaded,
// ErrStoreUnavailable, or a context's error. Nothing else leaves it, and
// lifecycle's refusals come as verdicts.
package storage

import (
	"context"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
)

// Store keeps records. Its methods may be called from any goroutine.
type Store interface {
	// Apply judges each command by lifecycle.Apply at a moment of the store's own
	// clock, writes what changed, and gives one Result for each command, in order.
	//
	// Commands are independent of each other: there is no transaction over them, and
	// their moments may differ, in any order. But two on one key are judged one after
	// the other, in order. A Result is given only once what it rests on is durable,
	// whoever wrote it.
	//
	// A Begin whose ctx has ended when its turn comes is not applied; its Err is
	// ctx's cause. Every other command that was taken is applied, whatever becomes
	// of ctx. ctx's end does not make Apply return before the commands taken are
	// judged.
	//
	// Begins applied together share MaxAnswerBytes: the first that would be answered
	// with more, and every command behind it, is not applied, and its Err is
	// ErrAskAlone. Alone, every command is answered.
	//
	// Err is ErrOverloaded where the store's bounded queue had no room: nothing
	// was applied. It is ErrStoreUnavailable where nothing was decided, or where
	// it is not known whether the command was applied; then only the same command
	// again can tell, by its call id, or by its settlement being in place.
	Apply(ctx context.Context, cmds ...lifecycle.Command) []Result

	// Read gives the records of keys, and the moment of the store's clock at which
	// they were read: nil for a key that has none or whose record is gone. What it
	// gives is durable. It never changes a record and takes no lock.
	// Errors: ErrStoreUnavailable, ErrOverloaded, ctx's cause.
	Read(ctx context.Context, keys ...oncekeeper.Key) (Snapshot, error)

	// List gives a page of records that are not gone, as List's query orders it.
	// Errors: ErrStoreUnavailable, ErrInvalidRequest for a cursor it did not give,
	// ctx's cause.
	List(ctx context.Context, q ListQuery) (Page, error)

	// Sweep deletes records that have been gone for longer than the query's grace,
	// at most Limit of them, in short transactions; each delete checks again, in
	// the write, that the record is the one that was found. A sweep changes disk
	// use and nothing else.
	// Errors: ErrStoreUnavailable, ErrOverloaded, ctx's cause; what was deleted
	// before the error is counted in the result.
	Sweep(ctx context.Context, q SweepQuery) (Swept, error)

	// Shared says whether records may change by other hands than this Store's, so
	// that whoever waits for a change must look now and then.
	Shared() bool

	// Ping gives nil where a write could be made durable now, as far as can be
	// told without one. Errors: ErrStoreUnavailable, ctx's cause.
	Ping(ctx context.Context) error

	// Close finishes the commands taken and frees the store. Every call after it
	// gives ErrStoreUnavailable.
	Close() error
}

// Result is what became of a command.
type Result struct {
	// Verdict of lifecycle, where Err is nil.
	Verdict lifecycle.Verdict
	// Record as it is stored after the command; nil where there is none. It is
	// shared: not to be changed.
	Record *oncekeeper.KeyRecord
	// Now is when the command was judged, on the store's clock.
	Now oncekeeper.Instant
	// Err: the command was not judged, or it is not known. See Store.Apply.
	Err error
}

// Refusal gives why the command did not do what it asks, as a sentinel, wrapped
// or not; nil for a Begin that was answered and for a change that stands.
func (r Result) Refusal() error {
	if r.Err != nil {
		return r.Err
	}
	return r.Verdict.Err()
}

// Snapshot is what Read found.
type Snapshot struct {
	Now oncekeeper.Instant
	// Records, one for each key asked for, in order; nil for none.
	Records []*oncekeeper.KeyRecord
}

// Order is how List orders.
type Order uint8

const (
	// ByKey orders by tenant, then operation, then id, as bytes.
	ByKey Order = iota
	// ByAge orders pending, abandoned and unresolved records by the end of their
	// lease, oldest first. A store passes over the others by an index, or in bounded
	// steps: a page may come short, with a Next.
	ByAge
)

// ListQuery says what to list. The zero value lists everything by key.
type ListQuery struct {
	// Tenant, Operation: empty for all. IDPrefix: a prefix of the id, as bytes.
	Tenant, Operation, IDPrefix string
	// States to list; empty for all. With ByAge only those that it orders.
	States []oncekeeper.State
	// CreatedFrom (inclusive) and CreatedTo (exclusive); zero for no bound.
	CreatedFrom, CreatedTo oncekeeper.Instant
	Order                  Order
	// Limit of a page, at least 1.
	Limit int
	// After is a Page's Next, or empty for the first page. The query is otherwise
	// the same.
	After string
}

// Page is a part of a listing.
type Page struct {
	Now     oncekeeper.Instant
	Records []*oncekeeper.KeyRecord
	// Next continues the listing; empty at its end. Where the query names a tenant it
	// tells of no key outside of the query's scope.
	Next string
}

// SweepQuery says what to sweep.
type SweepQuery struct {
	// Tenant, Operation: empty for all.
	Tenant, Operation string
	// Grace is how long after its expiry a record is left alone, so that a host
	// whose clock is behind by less gives the same verdicts and greater tokens. One
	// below zero counts as zero.
	Grace time.Duration
	// Limit of records deleted, at least 1.
	Limit int
	// DryRun counts and deletes nothing.
	DryRun bool
}

// Swept is what a sweep did.
type Swept struct {
	// Records deleted, or for a dry run to be deleted.
	Records int64
	// More is left to sweep.
	More bool
}
