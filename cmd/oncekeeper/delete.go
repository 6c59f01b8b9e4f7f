package main

import (
	"context"
	"fmt"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

type deleteCmd struct {
	decision
	Force bool `help:"Also when completed or failed, and under a live lease. Its holder is fenced."`
}

func (c *deleteCmd) Help() string {
	return `Forgets what is known of a key: its next Begin is granted, with any fingerprint, so the operation runs again.
Where your handlers write receipts, delete the receipt in your own database first.

Example:

  oncekeeper delete demo greet 1 --reason "a test's key" --yes`
}

func (c *deleteCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	etag, err := c.look(ctx, term, conn, "Forget it, so that its next Begin runs it again?")
	if err != nil {
		return err
	}
	_, err = ask(ctx, &c.remote, pb.NewAdminServiceClient(conn).DeleteRecord,
		&pb.DeleteRecordRequest{Key: c.key(), Etag: etag, Force: c.Force, Reason: c.Reason})
	if err != nil {
		return c.refused(err, "to forget it, and run it again, give --force too")
	}
	_, err = fmt.Fprintln(term.out, "deleted: the next Begin of the key is granted")
	return err
}
