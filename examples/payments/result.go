package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// result is what a way did.
type result struct {
	way     string
	guarded bool
	balance int64
	rows    int
	// double is how many rows there are beyond the first of each debit, and lost how
	// many debits have none, though their callers were told OK.
	double, lost int
	// unlike is how many debits had their two messages answered differently.
	unlike int
	// guard is what the guard counted, where there is one.
	guard grpcguard.Stats
}

const wantBalance = opening - debits*amount

// count fills in what is on the account and in the table.
func (r *result) count(ctx context.Context, payments paymentsv1.PaymentServiceClient, bank *bank) error {
	left, err := payments.GetBalance(ctx, &paymentsv1.GetBalanceRequest{Account: account})
	if err != nil {
		return fmt.Errorf("asking for the balance: %w", err)
	}
	rows, err := bank.rows(ctx)
	if err != nil {
		return fmt.Errorf("counting the rows: %w", err)
	}
	r.balance = left.GetBalance()
	for number := range debits {
		n := rows[requestIDOf(number+1)]
		r.rows += n
		r.double += max(0, n-1)
		if n == 0 {
			r.lost++
		}
	}
	return nil
}

// exact: each debit was charged once.
func (r result) exact() bool {
	return r.balance == wantBalance && r.rows == debits && r.double == 0 && r.lost == 0
}

func (r result) verdict() string {
	if r.exact() {
		return "exact"
	}
	return "wrong"
}

func printTable(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "way\tbalance (want %d)\trows (want %d)\tdouble charges\tlost charges\tverdict\n", wantBalance, debits)
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", r.way, r.balance, r.rows, r.double, r.lost, r.verdict())
	}
	return table.Flush()
}

// judge gives nil where the guarded way is exact and every other is wrong.
func judge(results []result) error {
	var faults []error
	for _, r := range results {
		switch {
		case r.guarded && !r.exact():
			faults = append(faults, fmt.Errorf("%s should be exact: %+v", r.way, r))
		case r.guarded && r.unlike > 0:
			faults = append(faults, fmt.Errorf("%s answered the two messages of %d debits differently", r.way, r.unlike))
		case !r.guarded && r.exact():
			faults = append(faults, fmt.Errorf("%s should be wrong and was exact: the experiment shows nothing", r.way))
		}
	}
	return errors.Join(faults...)
}
