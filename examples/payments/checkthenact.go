package main

import (
	"context"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// checkThenAct looks whether the debit was made before it makes it. That is right
// for a message that comes later, and of no use for two that come at once: both
// look, neither finds a row, both charge.
type checkThenAct struct{ service }

func (s checkThenAct) Debit(ctx context.Context, r *paymentsv1.DebitRequest) (*paymentsv1.DebitResponse, error) {
	made, found, err := s.bank.find(ctx, r.GetRequestId())
	if err != nil || found {
		return made, err
	}
	if err := s.assessRisk(ctx, r); err != nil {
		return nil, err
	}
	return s.bank.charge(ctx, r)
}
