package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// DefaultSweepBatch is how many receipts are read at once where nothing else is
// said.
const DefaultSweepBatch = 100

// SweepConfig is how receipts are swept.
type SweepConfig struct {
	// Horizon is how old a receipt is at least that is deleted, by this host's clock
	// against the database's: longer than any retention and any retry in use, since a
	// request that comes after it runs anew. 0: the store's own, by its Horizon
	// method, or else receipt.DefaultHorizon. It is at least an hour.
	Horizon time.Duration
	// Batch is how many receipts are read at once. 0: DefaultSweepBatch.
	Batch int
	// Limit bounds how many receipts are looked at in all. 0: no bound.
	Limit int
	// After is the key to go on behind: Swept.Next of a sweep that was ended. Zero:
	// from the first.
	After oncekeeper.Key
}

// Swept is what a sweep did.
type Swept struct {
	// Deleted receipts; and Kept, whose record the service still has, which were
	// written anew meanwhile, or are in doubt.
	Deleted, Kept int
	// Next is where to go on, and Done that there is no more.
	Next oncekeeper.Key
	Done bool
}

// SweepReceipts deletes from store the receipts, and the floors, that are older
// than the horizon and of which the service has no record any more. Where the
// service or the store gives an error it stops there, with what it did until then;
// a receipt is never deleted on anything but the service's word that there is no
// record, and one that is in doubt not at all: someone has to look. It ends with ctx.
//
// A service that lost its records says so of every key. So what protects an
// operation that may be asked for again is the horizon alone.
func SweepReceipts(ctx context.Context, keeper *Client, store receipt.Store, cfg SweepConfig) (Swept, error) {
	if cfg.Horizon == 0 {
		cfg.Horizon = receipt.DefaultHorizon
		if own, ok := store.(interface{ Horizon() time.Duration }); ok {
			cfg.Horizon = own.Horizon()
		}
	}
	if cfg.Batch == 0 {
		cfg.Batch = DefaultSweepBatch
	}
	if cfg.Horizon < time.Hour || cfg.Batch < 0 || cfg.Limit < 0 {
		return Swept{Next: cfg.After}, fmt.Errorf("sweep receipts: %w: the horizon is at least an hour, batch and limit are not below zero", oncekeeper.ErrInvalidRequest)
	}
	before := keeper.clock.Now().Add(-cfg.Horizon)
	swept := Swept{Next: cfg.After}
	for ctx.Err() == nil {
		batch := cfg.Batch
		if cfg.Limit > 0 {
			if batch = min(batch, cfg.Limit-swept.Deleted-swept.Kept); batch <= 0 {
				return swept, nil
			}
		}
		old, err := store.Old(ctx, before, swept.Next, batch)
		if err != nil {
			return swept, fmt.Errorf("sweep receipts: %w", err)
		}
		for _, r := range old {
			deleted, err := sweepOne(ctx, keeper, store, r, before)
			if err != nil {
				return swept, fmt.Errorf("sweep receipts: %w", err)
			}
			if deleted {
				swept.Deleted++
			} else {
				swept.Kept++
			}
			swept.Next = r.Key
		}
		if len(old) < batch {
			swept.Done = true
			return swept, nil
		}
	}
	return swept, fmt.Errorf("sweep receipts: %w", context.Cause(ctx))
}

func sweepOne(ctx context.Context, keeper *Client, store receipt.Store, r receipt.Receipt, before time.Time) (deleted bool, err error) {
	if r.InDoubt {
		return false, nil // an effect may stand, and nobody has looked
	}
	switch _, err := keeper.Get(ctx, r.Key); {
	case err == nil:
		return false, nil
	case !errors.Is(err, oncekeeper.ErrKeyNotFound):
		return false, err
	default:
		return store.Delete(ctx, r.Key, before)
	}
}
