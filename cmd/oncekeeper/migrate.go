package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/oncekeeper/oncekeeper/migrations"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

// migrateCmd brings a database's schema to what this version serves.
type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the database's schema to what this version serves."`
	Status migrateStatusCmd `cmd:"" help:"Show which steps of the schema the database has."`
}

// schemaFlags say whose schema it is.
type schemaFlags struct{ storeFlags }

// Validate refuses a store that has no schema.
func (f *schemaFlags) Validate() error {
	if f.isPostgres() {
		return nil
	}
	return f.unknown("postgres://USER@HOST/DATABASE; other stores have no schema")
}

type migrateUpCmd struct {
	schemaFlags
	Distribute bool `help:"On Citus: then spread the records over its nodes, by id. Done once, and again it changes nothing."`
}

func (c *migrateUpCmd) Help() string {
	return `Several may run at once: one works and the others wait for it. Give the database's address, with its password, in
ONCEKEEPER_STORE. Before servers of a new version are started, this brings the database to what they need.

Example:

  oncekeeper migrate up`
}

func (c *migrateUpCmd) Run(ctx context.Context, term console) error {
	taken, err := postgres.Migrate(ctx, postgres.Config{DSN: c.Store})
	if err != nil {
		return err
	}
	for _, step := range taken {
		_, _ = fmt.Fprintln(term.out, "took", step.Name)
	}
	_, _ = fmt.Fprintln(term.out, "the schema is up to date")
	return c.distribute(ctx, term)
}

// distribute spreads the records where it is asked to, or says that it can be asked.
func (c *migrateUpCmd) distribute(ctx context.Context, term console) error {
	cfg := postgres.Config{DSN: c.Store}
	if !c.Distribute {
		at, err := postgres.Spread(ctx, cfg)
		if at == migrations.OneNode {
			_, _ = fmt.Fprintln(term.out, "this is Citus, and the records are on one node: oncekeeper migrate up --distribute spreads them")
		}
		return err
	}
	done, err := postgres.Distribute(ctx, cfg)
	switch {
	case err != nil:
		return err
	case done:
		_, err = fmt.Fprintln(term.out, "distributed the records by id: start servers that run again")
	default:
		_, err = fmt.Fprintln(term.out, "the records are distributed already")
	}
	return err
}

type migrateStatusCmd struct{ schemaFlags }

func (c *migrateStatusCmd) Help() string {
	return `It changes nothing.

Example:

  oncekeeper migrate status`
}

func (c *migrateStatusCmd) Run(ctx context.Context, term console) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	steps, err := postgres.Schema(ctx, postgres.Config{DSN: c.Store})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(term.out, 0, 0, 2, ' ', 0)
	for _, step := range steps {
		when := "not yet: run oncekeeper migrate up"
		if !step.Applied.IsZero() {
			when = step.Applied.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\n", step.Name, when)
	}
	return t.Flush()
}
