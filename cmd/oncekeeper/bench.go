package main

import (
	"context"
	"errors"
	"time"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

// benchCmd measures a service of its own, or one that runs.
type benchCmd struct {
	Store string `env:"ONCEKEEPER_BENCH_STORE" default:"pebble:" help:"What the service that is started keeps records in: pebble:DIR, in a directory of its own below DIR (default: of the system's temporary files, which may lie in memory); postgres://USER@HOST/DATABASE, in a schema of its own; memory:. All of it is removed at the end."`

	Target      bool          `help:"Measure the service at --address instead. Its records are left to its sweeper, and plain SQL is not measured."`
	Callers     int           `default:"256" help:"How many call at once."`
	Connections int           `default:"2" help:"How many connections they share."`
	Response    int           `default:"256" placeholder:"BYTES" help:"How many bytes of response are kept with a key."`
	Keys        int           `default:"10000" help:"How many keys are there before it is measured."`
	Tenants     int           `default:"16" help:"How many tenants have them."`
	Slice       time.Duration `default:"1s" help:"How long a load has its turn."`
	Rounds      int           `default:"5" help:"How many turns each load has, with all callers and with one."`
	Check       bool          `help:"Fail where a ratio falls short of what it is to reach."`
	JSON        bool          `name:"json" help:"Print the report as JSON."`

	remote
}

func (c *benchCmd) Help() string {
	return `Compares loads that take turns in one run: empty calls, which are answered without the store; pairs of Begin and Complete; the same
sharing calls, and in batches of 64; replays; and on Postgres the same two statements sent straight from the process that needs them. What the
machine does besides meets all of them alike, so the ratios at the end mean the same on a noisy one. It takes --rounds times --slice for each
load, with all callers and again with one, and some seconds more.

Examples:

  oncekeeper bench --rounds 2 --slice 100ms --keys 100

  oncekeeper bench --store memory: --callers 16 --rounds 1 --slice 50ms --keys 100 --json

  oncekeeper bench --target --callers 4 --rounds 1 --slice 50ms --keys 100`
}

// Validate refuses what cannot be measured.
func (c *benchCmd) Validate() error {
	if c.Connections < 1 || c.Connections > 1024 {
		return errors.New("--connections is 1 to 1024")
	}
	if err := c.config().Validate(); err != nil {
		return err
	}
	if c.Target || c.Store == "pebble:" {
		return nil
	}
	return (&storeFlags{Store: c.Store}).check()
}

func (c *benchCmd) config() bench.Config {
	return bench.Config{
		Callers: c.Callers, ResponseBytes: c.Response, Keys: c.Keys, Tenants: c.Tenants,
		Turns: bench.Turns{Slice: c.Slice, Rounds: c.Rounds, Progress: func(string) {}},
	}
}

func (c *benchCmd) Run(ctx context.Context, term console) (err error) {
	cfg := c.config()
	var end func()
	cfg.Progress, end = progressOn(term)
	defer end()
	where := "the service at " + c.Address
	if !c.Target {
		measured, err := startMeasured(ctx, c.Store)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, measured.remove()) }()
		if cfg.Plain, err = measured.place.openPlain(ctx, c.Callers); err != nil {
			return err
		}
		where, cfg.ServerPID = measured.place.where, measured.pid()
		// It is on this machine, and asks nobody who they are.
		c.remote = remote{Address: measured.address, Timeout: c.Timeout}
	}
	conns, closeAll, err := c.connect(ctx, c.Connections)
	if err != nil {
		return err
	}
	defer closeAll()
	cfg.Conns = conns
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	report.Store = where
	return c.print(term, report)
}

func (c *benchCmd) print(term console, report bench.Report) error {
	if err := printReport(term, c.JSON, report); err != nil {
		return err
	}
	if !c.Check {
		return nil
	}
	if len(report.Ratios) == 0 {
		return errors.New("there is nothing to check: the service answers no empty calls, and plain SQL was not measured")
	}
	return reached(report.Ratios)
}
