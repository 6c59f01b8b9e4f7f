package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"google.golang.org/protobuf/types/known/timestamppb"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client/receipt"
	"github.com/oncekeeper/oncekeeper/client/receipt/sqlreceipt"
	"github.com/oncekeeper/oncekeeper/internal/wire"
)

// receiptCmd is for receipts, which lie in a database of your own.
type receiptCmd struct {
	Schema receiptSchemaCmd `cmd:"" help:"Print the SQL that creates the table of receipts."`
	Delete receiptDeleteCmd `cmd:"" help:"Forget the receipt of a key."`
}

type receiptSchemaCmd struct {
	Dialect string `enum:"postgres,sqlite" default:"postgres" help:"Of which database: ${enum}."`
}

func (c *receiptSchemaCmd) Help() string {
	return `The table belongs in the database that your operations change, in the schema where their connections look first.

Examples:

  oncekeeper receipt schema
  oncekeeper receipt schema --dialect sqlite`
}

func (c *receiptSchemaCmd) Run(term console) error {
	_, err := io.WriteString(term.out, dialects[c.Dialect].Schema())
	return err
}

var dialects = map[string]sqlreceipt.Dialect{"postgres": sqlreceipt.Postgres, "sqlite": sqlreceipt.SQLite}

type receiptDeleteCmd struct {
	Tenant    string `arg:"" help:"Whose operation."`
	Operation string `arg:"" help:"Which operation."`
	ID        string `arg:"" name:"id" help:"The idempotency key."`

	Database string        `required:"" env:"ONCEKEEPER_RECEIPTS" help:"Your database: postgres://USER@HOST/DATABASE (give a password in the environment, not here), or sqlite:FILE."`
	Schema   string        `help:"The schema that the table is in, where the connection does not look for it."`
	Timeout  time.Duration `env:"ONCEKEEPER_TIMEOUT" default:"10s" help:"How long to wait for the database."`
	Yes      bool          `short:"y" help:"Show the receipt and do not ask."`
}

func (c *receiptDeleteCmd) Help() string {
	return `Shows the receipt of a key and forgets it. Nothing in your database then says that the operation was applied, and the
next attempt that the service grants applies it again: undo its effect first, or be sure that it has none. The service
keeps its own record of the key: see oncekeeper delete.

Example:

  oncekeeper receipt delete demo greet 1 --yes`
}

// Validate does not repeat the address: it may hold a password.
func (c *receiptDeleteCmd) Validate() error {
	kind, rest, _ := strings.Cut(c.Database, ":")
	if rest == "" || kind != "sqlite" && kind != "postgres" && kind != "postgresql" {
		return errors.New("--database is of no kind that is known here: give postgres://USER@HOST/DATABASE or sqlite:FILE")
	}
	return nil
}

func (c *receiptDeleteCmd) Run(ctx context.Context, term console) error {
	if !c.Yes && !term.asks {
		return &codedError{errors.New("there is no terminal to ask on: give --yes"), exitUsage}
	}
	db, dialect, err := c.open()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	store, err := sqlreceipt.New(sqlreceipt.Config{DB: db, Dialect: dialect, Schema: c.Schema})
	if err != nil {
		return err
	}
	key := oncekeeper.Key{Tenant: c.Tenant, Operation: c.Operation, ID: c.ID}
	before, err := c.show(ctx, term.err, store, key)
	if err != nil {
		return err
	}
	if !c.Yes && !term.agree(ctx, "Forget it, so that the next attempt of the key may apply it again?") {
		return errUnchanged
	}
	deleting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	switch deleted, err := store.Delete(deleting, key, before); {
	case err != nil:
		return fmt.Errorf("%w; it may have been deleted: look again", c.explain(deleting, err))
	case !deleted:
		return errors.New("the receipt changed since it was shown, and nothing was done: look again")
	}
	_, err = fmt.Fprintln(term.out, "deleted: nothing in this database says any more that the operation was applied")
	return err
}

// show prints the receipt, and gives the moment before which it was written.
func (c *receiptDeleteCmd) show(ctx context.Context, to io.Writer, store *sqlreceipt.Store, key oncekeeper.Key) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := store.Look(ctx, key)
	switch {
	case errors.Is(err, receipt.ErrInDoubt):
		_, err = fmt.Fprintln(to, "in doubt: a function committed its transaction by hand, without its response")
		return time.Now().AddDate(100, 0, 0), err
	case err != nil:
		return time.Time{}, c.explain(ctx, err)
	case r == nil:
		return time.Time{}, &codedError{fmt.Errorf("there is no receipt of %q in %q of tenant %q", c.ID, c.Operation, c.Tenant), exitNotFound}
	}
	return r.Written.Add(time.Microsecond), printReceipt(to, r)
}

func printReceipt(w io.Writer, r *receipt.Receipt) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", name, printable(s))
		}
	}
	row("state", map[bool]string{true: "APPLIED", false: "CLOSED"}[r.Applied()])
	row("tenant", r.Key.Tenant)
	row("operation", r.Key.Operation)
	row("id", r.Key.ID)
	row("fingerprint", strings.TrimSpace(fmt.Sprintf("%s %x", r.FingerprintScheme, r.Fingerprint)))
	if r.Floor > 0 {
		row("floor", r.Floor)
	}
	row("written", moment(timestamppb.New(r.Written)))
	if r.Applied() {
		row("fencing token", r.Token)
		row("response", describeBody(wire.ResponseToProto(r.Response)))
		row("resource", r.Response.Resource)
	}
	return t.Flush()
}

func (c *receiptDeleteCmd) open() (*sql.DB, sqlreceipt.Dialect, error) {
	if file, ok := strings.CutPrefix(c.Database, "sqlite:"); ok {
		path := (&url.URL{Path: file}).EscapedPath()
		db, err := sql.Open("sqlite", "file:"+path+"?mode=rw&_pragma=busy_timeout(5000)&_txlock=immediate")
		return db, sqlreceipt.SQLite, err
	}
	config, err := pgx.ParseConfig(c.Database)
	if err != nil {
		// The parser quotes what it could not read, password or not.
		return nil, 0, errors.New("--database cannot be read: give postgres://USER@HOST:PORT/DATABASE")
	}
	return stdlib.OpenDB(*config), sqlreceipt.Postgres, nil
}

func (c *receiptDeleteCmd) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer of the database within %v: give it longer with --timeout", c.Timeout)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "receipt: "))
}
