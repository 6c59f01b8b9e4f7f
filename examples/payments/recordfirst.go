package main

import (
	"context"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// recordFirst writes the request down as processed, under a unique constraint, and
// only then processes it. So nothing is charged twice. But what fails after it was
// written down is never charged at all: the retry is told that it is done. So is a
// second message while the first still works, and neither is given the debit's name.
type recordFirst struct{ service }

func (s recordFirst) Debit(ctx context.Context, r *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	first, err := s.bank.record(ctx, r.GetRequestId())
	if err != nil {
		return nil, err
	}
	if !first {
		return &paymentsv1.DebitResponse{}, nil
	}
	if err := s.assessRisk(ctx, r); err != nil {
		return nil, err
	}
	return s.bank.charge(ctx, r)
}
