package main

import (
	"context"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// service is what the four ways have in common.
type service struct {
	paymentsv1.UnimplementedPaymentServiceServer
	bank  *bank
	twins *twins
}

func (s service) GetBalance(ctx context.Context, r *paymentsv1.GetBalanceRequest) (*paymentsv1.GetBalanceResponse, error) {
	balance, err := s.bank.balance(ctx, r.GetAccount())
	if err != nil {
		return nil, err
	}
	return &paymentsv1.GetBalanceResponse{Balance: balance}, nil
}

// assessRisk stands for the slow step that handlers have: a call to a service that
// thinks the debit over. In real life it is there to be raced through now and then;
// here its length makes the two messages of a debit meet in it.
func (s service) assessRisk(ctx context.Context, r *paymentsv1.DebitRequest) error {
	return s.twins.meet(ctx, r.GetRequestId())
}
