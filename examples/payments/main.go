package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// within bounds the whole run, which takes some seconds.
const within = 2 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// fourWays are the same service, written as people write it.
var fourWays = []way{
	{name: "unguarded", handler: func(s service) paymentsv1.PaymentServiceServer { return unguarded{s} }},
	{name: "check-then-act", handler: func(s service) paymentsv1.PaymentServiceServer { return checkThenAct{s} }},
	{name: "record-first", handler: func(s service) paymentsv1.PaymentServiceServer { return recordFirst{s} }},
	{name: "guarded", handler: func(s service) paymentsv1.PaymentServiceServer { return guarded{s} }, guarded: true},
}

// run tries the four ways, prints what each did, and is an error unless it came out
// as the last line says.
func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d on the account, %d debits of %d, each sent twice at once. Every %dth fails before it commits,\n"+
		"every %dth loses its answer, every %dth commits and is not heard of. Callers retry until they are answered.\n\n",
		opening, debits, amount, failEvery, loseEvery, silentEvery)
	results, err := experiment(ctx)
	if err != nil {
		return err
	}
	if err := printTable(out, results); err != nil {
		return err
	}
	if err := judge(results); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "\nSame messages, same trouble, same retries: only behind the guard was each debit charged once.")
	return err
}

// experiment tries each way on a database of its own, and leaves nothing behind.
func experiment(ctx context.Context) ([]result, error) {
	dir, err := os.MkdirTemp("", "oncekeeper-payments-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var results []result
	for _, w := range fourWays {
		r, err := w.try(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}
