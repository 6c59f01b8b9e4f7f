package main

import (
	"context"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

type getCmd struct {
	keyed
	JSON bool `name:"json" help:"Print the whole record as JSON."`
}

func (c *getCmd) Help() string {
	return "Example:\n\n  oncekeeper get demo greet 1"
}

func (c *getCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	res, err := ask(ctx, &c.remote, pb.NewIdempotencyServiceClient(conn).Get, &pb.GetRequest{Key: c.key()})
	if err != nil {
		return c.explain(err)
	}
	if c.JSON {
		return printJSON(term.out, res.GetRecord())
	}
	return printTable(term.out, res.GetRecord())
}
