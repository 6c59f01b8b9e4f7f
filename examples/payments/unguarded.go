package main

import (
	"context"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// unguarded charges whenever it is asked to. It would do if every message came
// once.
type unguarded struct{ service }

func (s unguarded) Debit(ctx context.Context, r *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	if err := s.assessRisk(ctx, r); err != nil {
		return nil, err
	}
	return s.bank.charge(ctx, r)
}
