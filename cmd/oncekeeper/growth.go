package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

// growthCmd measures services of its own at several sizes of one thing.
type growthCmd struct {
	By    string `arg:"" enum:"keys,response,callers,tenants" help:"What grows: ${enum}."`
	Sizes []int  `placeholder:"N,..." help:"Its sizes, in another place of the defaults, which are told above."`

	Store string `env:"ONCEKEEPER_BENCH_STORE" default:"pebble:" help:"What the services that are started keep records in, as of bench. All of it is removed at the end."`

	Callers     int           `default:"0" help:"How many call at once; 0: 256, and 32 where responses grow."`
	Connections int           `default:"2" help:"How many connections to a service they share."`
	Response    int           `default:"256" placeholder:"BYTES" help:"How many bytes of response are kept with a key."`
	Keys        int           `default:"50000" help:"How many keys are there before it is measured, for each size."`
	Tenants     int           `default:"16" help:"How many tenants have them."`
	Slice       time.Duration `default:"1s" help:"How long a size has its turn."`
	Rounds      int           `default:"5" help:"How many turns each size has, with pairs and with replays."`
	Timeout     time.Duration `default:"${timeout}" help:"How long a service may take to answer the first time."`
	Check       bool          `help:"Fail where a ratio falls short of what it is to reach."`
	JSON        bool          `name:"json" help:"Print the report as JSON."`
}

// growthSizes are the defaults.
var growthSizes = map[string][]int{
	bench.ByKeys:     {10_000, 100_000, 1_000_000, 10_000_000},
	bench.ByResponse: {0, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20},
	bench.ByCallers:  {1, 4, 16, 64, 256, 1024, 4096},
	bench.ByTenants:  {1, 10, 100, 1_000, 10_000, 50_000},
}

func (c *growthCmd) Help() string {
	return `Measures pairs of Begin and Complete, and replays, at several sizes of one thing, which take turns in one run: so what else the machine does
meets all of them alike, and the rate at one size over that at another means the same on a noisy one.

  keys      that are in the store before: 10 thousand, 100 thousand, a million and ten million, each in a store of its own
            (which are filled first: ten million take minutes, and 10 GB of disk)
  response  bytes: 0 to 1 MiB
  callers   1 to 4,096
  tenants   1 to 50,000, among whom as many keys are

Of embedded stores it also tells what the directory takes of the disk, for how many bytes stored, and of the server how much memory it had.

Examples:

  oncekeeper growth callers --sizes 1,4 --rounds 1 --slice 50ms --keys 100

  oncekeeper growth keys --sizes 100,1000 --store memory: --callers 4 --rounds 1 --slice 50ms --json`
}

// Validate refuses what cannot be measured.
func (c *growthCmd) Validate() error {
	if c.Connections < 1 || c.Connections > 1024 {
		return errors.New("--connections is 1 to 1024")
	}
	if len(c.Sizes) == 0 {
		c.Sizes = growthSizes[c.By]
	}
	if !slices.IsSorted(c.Sizes) || len(slices.Compact(slices.Clone(c.Sizes))) < len(c.Sizes) {
		return errors.New("--sizes grow")
	}
	for _, size := range c.Sizes {
		if err := c.subject(size).Validate(); err != nil {
			return fmt.Errorf("%d %s: %w", size, c.By, err)
		}
	}
	if c.Store == "pebble:" {
		return nil
	}
	return (&storeFlags{Store: c.Store}).check()
}

// subject is what is measured at a size.
func (c *growthCmd) subject(size int) bench.Subject {
	s := bench.Subject{Size: size, Config: bench.Config{
		Callers: c.Callers, ResponseBytes: c.Response, Keys: c.Keys, Tenants: c.Tenants, Turns: bench.Turns{Slice: c.Slice, Rounds: c.Rounds},
	}}
	if s.Callers == 0 {
		s.Callers = 256
		if c.By == bench.ByResponse {
			s.Callers = 32
		}
	}
	switch c.By {
	case bench.ByKeys:
		s.Keys = size
	case bench.ByResponse:
		s.ResponseBytes = size
		s.Keys = min(s.Keys, max(16, mostFilled/(size+1)))
	case bench.ByCallers:
		s.Callers = size
	case bench.ByTenants:
		s.Tenants, s.Keys = size, max(s.Keys, size)
	}
	return s
}

// mostFilled bounds the bytes of large responses that are there before they are
// measured.
const mostFilled = 64 << 20

func (c *growthCmd) Run(ctx context.Context, term console) (err error) {
	turns := bench.Turns{Slice: c.Slice, Rounds: c.Rounds}
	var end func()
	turns.Progress, end = progressOn(term)
	defer end()
	var subjects []bench.Subject
	var services []*measured
	defer func() {
		for _, m := range services {
			err = errors.Join(err, m.remove())
		}
	}()
	for _, size := range c.Sizes {
		s := c.subject(size)
		if c.By == bench.ByKeys || len(services) == 0 {
			m, err := startMeasured(ctx, c.Store)
			if err != nil {
				return err
			}
			services = append(services, m)
		}
		m := services[len(services)-1]
		s.ServerPID = m.pid()
		conns, closeAll, err := (&remote{Address: m.address, Timeout: c.Timeout}).connect(ctx, c.Connections)
		if err != nil {
			return err
		}
		defer closeAll()
		s.Conns = conns
		subjects = append(subjects, s)
	}
	g, err := bench.Grow(ctx, c.By, turns, subjects)
	if err != nil {
		return err
	}
	g.Store = kindOf(c.Store)
	turns.Progress("reading what is stored")
	if err := measureDisks(ctx, &g, services); err != nil {
		return err
	}
	g.Judge()
	end()
	return c.print(term, g)
}

// kindOf is what may be shown of a store to everybody: neither where it lies nor who
// may open it.
func kindOf(store string) string {
	switch f := (&storeFlags{Store: store}); {
	case f.isPostgres():
		return "Postgres"
	case store == "memory:":
		return "memory"
	default:
		return "embedded"
	}
}

func (c *growthCmd) print(term console, g bench.Growth) error {
	if err := printReport(term, c.JSON, g); err != nil || !c.Check {
		return err
	}
	return reached(g.Ratios)
}
