package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/internal/wire"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// remote is how a command reaches the service.
type remote struct {
	Address string        `env:"ONCEKEEPER_ADDRESS" default:"127.0.0.1:8460" help:"Address of the service."`
	Timeout time.Duration `env:"ONCEKEEPER_TIMEOUT" default:"10s" help:"How long to wait for its answer."`
}

func (r *remote) dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(r.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("--address %s: %w", r.Address, err)
	}
	return conn, nil
}

type getCmd struct {
	Tenant    string `arg:"" help:"Whose operation."`
	Operation string `arg:"" help:"Which operation."`
	ID        string `arg:"" name:"id" help:"The idempotency key."`
	JSON      bool   `name:"json" help:"Print the whole record as JSON."`

	remote
}

func (c *getCmd) Help() string {
	return "Example: oncekeeper get demo greet 1\n\nExits with 4 where there is no such record, or it expired."
}

func (c *getCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var trailer metadata.MD
	res, err := pb.NewIdempotencyServiceClient(conn).Get(ctx, &pb.GetRequest{
		Key: &pb.Key{Tenant: c.Tenant, Operation: c.Operation, Id: c.ID},
	}, grpc.Trailer(&trailer))
	if err != nil {
		return c.explain(wire.FromError(err, trailer))
	}
	if c.JSON {
		return printJSON(term.out, res.GetRecord())
	}
	return printTable(term.out, res.GetRecord())
}

func (c *getCmd) explain(err error) error {
	switch {
	case errors.Is(err, oncekeeper.ErrKeyNotFound):
		return &codedError{fmt.Errorf("there is no record of %q in %q of tenant %q, or it expired", c.ID, c.Operation, c.Tenant), exitNotFound}
	case status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("no answer from %s within %v: give it longer with --timeout", c.Address, c.Timeout)
	case status.Code(err) == codes.Unavailable:
		return fmt.Errorf("no answer from %s: is the service running there? (%s)", c.Address, status.Convert(err).Message())
	default:
		return errors.New(strings.TrimPrefix(status.Convert(err).Message(), "oncekeeper: "))
	}
}
