package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncekeeper/oncekeeper"
	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

type backupCmd struct {
	Name string `arg:"" help:"The backup's directory, which is made: a name in the service's --backup-dir."`
	JSON bool   `name:"json" help:"Print what was made as JSON."`

	remote `set:"timeout=10m"`
}

func (c *backupCmd) Help() string {
	return `Has the service copy its embedded store while it serves. All that was answered before is in the copy. To restore it, stop
the service, put the directory in the place of the old one, and start; but read first what a restored store has forgotten:
docs/operations.md. A Postgres is backed up by its own means.

Example:

  oncekeeper backup monday`
}

func (c *backupCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	made, err := ask(ctx, &c.remote, pb.NewAdminServiceClient(conn).Backup, &pb.BackupRequest{Name: c.Name})
	switch {
	case errors.Is(err, oncekeeper.ErrStoreUnavailable):
		return fmt.Errorf("the service at %s could not make the backup: its log says why", c.Address)
	case undecided(err):
		return fmt.Errorf("%w; a backup that was begun goes on, and is whole once it has its name", c.explain(err))
	case err != nil:
		return c.explain(err)
	case c.JSON:
		return printJSON(term.out, made)
	}
	_, err = fmt.Fprintf(term.out, "%s\nholds all that was answered before %s, in %d MiB\n",
		made.GetDirectory(), moment(made.GetBeginTime()), (made.GetSizeBytes()+1<<20-1)>>20)
	return err
}

// makeBackupDir gives the place for backups; none where none is named.
func makeBackupDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	whole, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(whole, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("--backup-dir: %w", err)
	}
	return whole, nil
}
