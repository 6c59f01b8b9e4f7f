package fakereceipts

import (
	"context"
	"errors"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

// ErrNotHeard: whether the transaction was committed is not known.
var ErrNotHeard = errors.New("the connection was cut at the commit")

// InTx claims, runs change, stores what it gives and commits, as the real ones do.
func InTx[T any](ctx context.Context, s *Store, change func(ctx context.Context) (T, error)) (T, error) {
	var none T
	p := receipt.PermitFrom(ctx)
	if p == nil {
		return change(ctx)
	}
	if err := p.Take(); err != nil {
		return none, err
	}
	if err := s.step(ctx, "claim"); err != nil {
		p.Return()
		return none, oncekeeper.RolledBack(err)
	}
	unlock, err := s.lock(ctx, p.Claim.Key)
	if err != nil {
		p.Return()
		return none, oncekeeper.RolledBack(err)
	}
	defer unlock()
	row := s.Row(p.Claim.Key)
	applied, err := receipt.Claimed(row, p.Claim)
	if err != nil {
		p.Return()
		return none, oncekeeper.RolledBack(err)
	}
	if applied {
		p.SetApplied(row.Response)
		err := p.Codec.Decode(row.Response, &none)
		return none, err
	}
	value, err := change(ctx)
	var kept *oncekeeper.Response
	if err == nil {
		kept, err = p.Codec.Encode(value)
	}
	if err == nil {
		err = s.step(ctx, "commit")
	}
	if err != nil {
		p.Return()
		return none, oncekeeper.RolledBack(err)
	}
	s.Put(receipt.Receipt{
		Key: p.Claim.Key, FingerprintScheme: p.Claim.FingerprintScheme, Fingerprint: p.Claim.Fingerprint,
		Response: kept, Token: p.Claim.Token,
	})
	if err := s.step(ctx, "committed"); err != nil {
		return none, errors.Join(ErrNotHeard, err)
	}
	p.SetApplied(kept)
	return value, nil
}
