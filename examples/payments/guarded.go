package main

import (
	"context"
	"errors"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// guarded is what runs behind the guard, which lets one attempt of a debit in at a
// time, none once the debit is settled, and gives everyone the same answer. What is
// left to the handler is to say what it knows when it fails, and to look where it
// is told that an attempt before it did not know.
type guarded struct{ service }

func (s guarded) Debit(ctx context.Context, r *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	if grpcguard.Takeover(ctx) {
		made, found, err := s.bank.find(ctx, r.GetRequestId())
		if err != nil || found {
			return made, err
		}
	}
	if err := s.assessRisk(ctx, r); err != nil {
		return nil, oncekeeper.NotApplied(err)
	}
	debit, err := s.bank.charge(ctx, r)
	if errors.Is(err, errRolledBack) {
		// Known to have done nothing: the next attempt may run as if this had not been.
		return nil, oncekeeper.NotApplied(err)
	}
	// Any other error is settled by its code. NOT_FOUND (no such account) is kept and
	// replayed, as are INVALID_ARGUMENT, ALREADY_EXISTS, FAILED_PRECONDITION,
	// OUT_OF_RANGE and DATA_LOSS; a takeover has to look before it believes NOT_FOUND,
	// ALREADY_EXISTS or FAILED_PRECONDITION. Every other code leaves the outcome
	// unknown, and the next attempt a takeover.
	return debit, err
}
