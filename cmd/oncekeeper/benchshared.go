package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

// progressOn gives what draws over one line of a terminal, and what clears it.
func progressOn(term console) (progress func(what string), end func()) {
	if !isTerminal(term.err) {
		return func(string) {}, func() {}
	}
	return func(what string) { _, _ = fmt.Fprintf(term.err, "\r\x1b[K%s", what) }, func() { _, _ = fmt.Fprint(term.err, "\r\x1b[K") }
}

// connect gives so many connections, all of them up; closeAll ends them.
func (r *remote) connect(ctx context.Context, n int) (conns []*grpc.ClientConn, closeAll func(), err error) {
	closeAll = func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	for range n {
		conn, err := r.dial()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, conn)
	}
	if err := r.reachable(ctx, conns); err != nil {
		closeAll()
		return nil, nil, err
	}
	return conns, closeAll, nil
}

// reachable has every connection up before anything is measured.
func (r *remote) reachable(ctx context.Context, conns []*grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for _, conn := range conns {
		conn.Connect()
		for state := conn.GetState(); state.String() != "READY"; state = conn.GetState() {
			if !conn.WaitForStateChange(ctx, state) {
				return fmt.Errorf("no answer from %s within %v: is the service running there?", r.Address, r.Timeout)
			}
		}
	}
	return nil
}

// reportOf is what a measurement prints.
type reportOf interface{ Print(to io.Writer) error }

func printReport(term console, asJSON bool, report reportOf) error {
	if !asJSON {
		return report.Print(term.out)
	}
	to := json.NewEncoder(term.out)
	to.SetIndent("", "  ")
	return to.Encode(report)
}

// reached gives an error where a ratio falls short.
func reached(ratios []bench.Ratio) error {
	if short := bench.Short(ratios); len(short) > 0 {
		return errors.New(strings.Join(short, "; "))
	}
	return nil
}
