package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server"
)

// sweepFlags are of the sweeper that serve runs.
type sweepFlags struct {
	Interval time.Duration `env:"ONCEKEEPER_SWEEP_INTERVAL" default:"1m" help:"How often expired records are deleted, give or take a half; 0 for never."`
	Grace    time.Duration `env:"ONCEKEEPER_SWEEP_GRACE" default:"20m" help:"How long after their expiry records are left alone, so that a clock that is behind does no harm; 10m at the least."`
	Batch    int           `env:"ONCEKEEPER_SWEEP_BATCH" default:"1000" help:"How many records are deleted at once."`
	Rate     int           `env:"ONCEKEEPER_SWEEP_RATE" default:"10000" help:"How many records are deleted in a second, at the most."`
}

// Validate refuses what reads like a default and is none.
func (f *sweepFlags) Validate() error {
	if f.Grace < server.MinGrace || f.Batch < 1 || f.Rate < 1 || f.Interval < 0 {
		return fmt.Errorf("--sweep-grace is at least %v, --sweep-batch and --sweep-rate at least 1, --sweep-interval at least 0", server.MinGrace)
	}
	return nil
}

func (f *sweepFlags) config() server.Sweeping {
	return server.Sweeping{Interval: f.Interval, Grace: f.Grace, Batch: f.Batch, Rate: f.Rate}
}

type sweepCmd struct {
	scope
	Max    int64 `help:"Delete so many at the most; 0 for all."`
	DryRun bool  `help:"Count, delete nothing."`
	JSON   bool  `name:"json" help:"Print the counts as JSON."`

	remote
}

func (c *sweepCmd) Help() string {
	return `Deletes records whose retention has passed, and the service's grace after it. It changes disk use and nothing else, and the
service does it by itself now and then, unless it was told not to, or its clock jumped: look at its log before you sweep by hand.

Examples:

  oncekeeper sweep --dry-run

  oncekeeper sweep --tenant demo --json`
}

// Validate refuses a negative bound.
func (c *sweepCmd) Validate() error {
	if c.Max < 0 {
		return errors.New("--max is below 0")
	}
	return nil
}

// sweepCall is how many records one call deletes, so that there is progress to show.
const sweepCall = 10_000

// swept is what --json prints.
type swept struct {
	Records int64 `json:"swept"`
	More    bool  `json:"more"`
	DryRun  bool  `json:"dryRun"`
}

func (c *sweepCmd) Run(ctx context.Context, term console) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	admin := pb.NewAdminServiceClient(conn)
	total := swept{DryRun: c.DryRun, More: true}
	progress := c.bar(ctx, term, admin)
	defer progress.clear()
	for total.More && (c.Max == 0 || total.Records < c.Max) {
		progress.show(total.Records, "swept")
		res, err := ask(ctx, &c.remote, admin.Sweep, c.request(total.Records, c.DryRun))
		if err != nil {
			progress.clear()
			return c.stopped(err, total)
		}
		total.Records += res.GetSwept()
		total.More = res.GetMore()
		if res.GetSwept() == 0 || c.DryRun {
			break
		}
	}
	progress.clear()
	return c.print(term, total)
}

// bar counts first, on a terminal, so that there is an end to go to.
func (c *sweepCmd) bar(ctx context.Context, term console, admin pb.AdminServiceClient) bar {
	if !term.shows || c.DryRun {
		return bar{}
	}
	b := bar{to: term.err}
	b.show(0, "swept: counting")
	if res, err := ask(ctx, &c.remote, admin.Sweep, c.request(0, true)); err == nil {
		b.total = res.GetSwept()
	}
	return b
}

func (c *sweepCmd) request(done int64, count bool) *pb.SweepRequest {
	bound := int64(sweepCall)
	if count { // one call counts all
		bound = math.MaxInt32
	}
	if c.Max > 0 {
		bound = min(bound, c.Max-done)
	}
	return &pb.SweepRequest{Tenant: c.Tenant, Operation: c.Operation, MaxRecords: int32(bound), DryRun: count}
}

// stopped says what was done before err.
func (c *sweepCmd) stopped(err error, total swept) error {
	err = c.explain(err)
	if total.Records > 0 {
		return fmt.Errorf("%w; %d were swept before: the command may be run again", err, total.Records)
	}
	return err
}

func (c *sweepCmd) print(term console, total swept) error {
	if c.JSON {
		return json.NewEncoder(term.out).Encode(total)
	}
	what, more := "swept", ""
	if total.DryRun {
		what = "to be swept"
	}
	if total.More {
		more = ", and there are more"
	}
	_, err := fmt.Fprintf(term.out, "%d %s%s\n", total.Records, what, more)
	return err
}
