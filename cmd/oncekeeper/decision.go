package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// decision is how an operator decides about one key: by what was looked at, and
// with a reason.
type decision struct {
	keyed
	Reason string `required:"" help:"Why, in up to 512 bytes. It is kept with the record, and logged."`
	Etag   string `xor:"looked" help:"The etag of the record that you looked at. Without it the record is shown, and you are asked."`
	Yes    bool   `short:"y" xor:"looked" help:"Show the record and do not ask."`
}

// errUnchanged is an operator's no.
var errUnchanged = errors.New("nothing was changed")

// look gives the etag to decide by: the one given, or that of the record as it is
// shown now, where who runs the command agrees.
func (d *decision) look(ctx context.Context, term console, conn *grpc.ClientConn, question string) (string, error) {
	if d.Etag != "" {
		return d.Etag, nil
	}
	if !d.Yes && !term.asks {
		return "", &codedError{errors.New("there is no terminal to ask on: give --yes, or with --etag the record that you looked at"), exitUsage}
	}
	res, err := ask(ctx, &d.remote, pb.NewIdempotencyServiceClient(conn).Get, &pb.GetRequest{Key: d.key()})
	if err != nil {
		return "", d.explain(err)
	}
	if err := printTable(term.err, res.GetRecord()); err != nil {
		return "", err
	}
	if !d.Yes && !term.agree(ctx, question) {
		return "", errUnchanged
	}
	return res.GetRecord().GetEtag(), nil
}

// agree asks a question; any answer but yes, and ctx's end, is a no.
func (c console) agree(ctx context.Context, question string) bool {
	_, _ = fmt.Fprintf(c.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	// It reads on where ctx ends first: the process is about to end.
	go func() {
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		return a == "y" || a == "yes"
	case <-ctx.Done():
		_, _ = fmt.Fprintln(c.err)
		return false
	}
}

// refused says what to do about a refusal; settled is what to do where the key is
// completed or failed.
func (d *decision) refused(err error, settled string) error {
	switch {
	case errors.Is(err, oncekeeper.ErrAlreadySettled):
		return fmt.Errorf("the key is completed or failed, and callers get that outcome: %s", settled)
	case errors.Is(err, oncekeeper.ErrEtagMismatch):
		return fmt.Errorf("the record changed since you looked at it, and nothing was done: look again with %s", d.suggest("get"))
	case errors.Is(err, oncekeeper.ErrInProgress):
		return errors.New("an attempt is running under a live lease, and nothing was done: wait for it, or fence its holder with --force")
	case undecided(err):
		return fmt.Errorf("%w; whether it was done is not known: look with %s", d.explain(err), d.suggest("get"))
	default:
		return d.explain(err)
	}
}
