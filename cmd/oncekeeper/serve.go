package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/internal/bench"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/server/policy"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

type serveCmd struct {
	storeFlags
	PostgresPlan string        `env:"ONCEKEEPER_POSTGRES_PLAN" enum:"auto,many,single" default:"auto" help:"How many keys a statement takes: many, for a Postgres on one node; single, for a distributed engine that speaks Postgres; auto: what fits the server."`
	Migrate      bool          `env:"ONCEKEEPER_MIGRATE" help:"Bring the database's schema to what this version serves, before serving."`
	Listen       string        `env:"ONCEKEEPER_LISTEN" default:"127.0.0.1:8460" help:"Address to serve gRPC on."`
	Insecure     bool          `env:"ONCEKEEPER_INSECURE" help:"Serve off loopback although anyone who reaches the port may call, or read what is said."`
	MaxConns     int           `name:"max-connections" env:"ONCEKEEPER_MAX_CONNECTIONS" default:"16384" help:"How many connections may be open at once, three quarters of them from one address; fewer where the system allows fewer open files."`
	Drain        time.Duration `env:"ONCEKEEPER_DRAIN" default:"30s" help:"How long calls under way may take to finish on SIGTERM."`

	// AnswerEmptyCalls is bench's: it measures a service of its own.
	AnswerEmptyCalls bool `hidden:""`

	opsFlags
	policyFlag
	trustFlags
	accessFlags
	Traces    traceFlags `embed:"" prefix:"trace-"`
	BackupDir string     `env:"ONCEKEEPER_BACKUP_DIR" placeholder:"DIR" help:"Where oncekeeper backup may make backups of an embedded store, on this host: best on the file system of the store. Not set: nowhere."`

	Sweep sweepFlags `embed:"" prefix:"sweep-"`
}

func (c *serveCmd) Help() string {
	return `Serves until SIGTERM. A password of a database belongs in ONCEKEEPER_STORE, not on the command line.

Examples:

  oncekeeper serve

  oncekeeper serve --store pebble:./payments --backup-dir ./backups --policy policy.yaml

  oncekeeper serve --principals principals.yaml

  oncekeeper serve --trace-endpoint http://127.0.0.1:4317 --access-log 0.01 --access-log-refusals 1

  oncekeeper serve --migrate --sweep-interval 5m --log-format json`
}

// Validate refuses a command line that cannot be served.
func (c *serveCmd) Validate() error {
	if err := c.storeFlags.check(); err != nil {
		return err
	}
	if err := c.opsFlags.check(c.Insecure); err != nil {
		return err
	}
	if err := c.trustFlags.check(); err != nil {
		return err
	}
	if c.MaxConns < 1 {
		return fmt.Errorf("--max-connections %d: nobody could call: give 1 or more", c.MaxConns)
	}
	if err := errors.Join(c.accessFlags.check(), c.Traces.check()); err != nil {
		return err
	}
	return c.checkListen()
}

func (c *serveCmd) Run(ctx context.Context, term console, logs *logFlags) error {
	defer giveRoom()()
	log := logs.logger(term.err)
	files := &reloader{clock: clock.System, log: log}
	policies, err := c.livePolicy(ctx, files)
	if err != nil {
		return err
	}
	trusted, err := c.trustFlags.read(ctx, files, log)
	if err != nil {
		return err
	}
	defer files.start(ctx)()
	broken := make(chan error, 1)
	store, where, err := c.open(ctx, log, c.plan(), c.Migrate, func(err error) { broken <- err })
	if err != nil {
		return err
	}
	return errors.Join(c.serve(ctx, store, policies, trusted, where, log, broken), c.close(store))
}

func (c *serveCmd) plan() postgres.Plan {
	if c.PostgresPlan == "auto" {
		return postgres.PlanAuto
	}
	return postgres.Plan(c.PostgresPlan)
}

// close gives up on a store that hangs: the process ends, and what was answered
// is on disk.
func (c *serveCmd) close(store storage.Store) error {
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(c.Drain):
		return fmt.Errorf("the store does not close within %v", c.Drain)
	}
}

func (c *serveCmd) serve(ctx context.Context, store storage.Store, policies policy.Source, trusted trusted, where string, log *slog.Logger, broken <-chan error) error {
	backups, err := makeBackupDir(c.BackupDir)
	if err != nil {
		return err
	}
	reg, err := registry(store)
	if err != nil {
		return err
	}
	spans, endTraces, err := c.Traces.start(ctx, log)
	if err != nil {
		return err
	}
	defer endTraces()
	cfg := server.Config{Store: store, Policies: policies, Logger: log, Sweep: c.Sweep.config(), BackupDir: backups, MaxConnections: boundConnections(ctx, c.MaxConns, openFiles(), log), Metrics: reg, Trust: trusted.trust, Options: trusted.options, TracerProvider: spans, AccessLog: c.accessFlags.config()}
	if c.AnswerEmptyCalls {
		cfg.Options = append(cfg.Options, grpc.ChainUnaryInterceptor(bench.AnswerEmptyCalls))
	}
	srv, err := server.New(cfg)
	if err != nil {
		return err
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	stopping, endOps, err := c.opsFlags.serve(ctx, store, reg, log)
	if err != nil {
		return errors.Join(err, lis.Close())
	}
	defer endOps() // last: who asks is told to the end that this server is not ready
	address := lis.Addr().String()
	log.InfoContext(ctx, "listening", "address", address)
	log.InfoContext(ctx, "records lie in "+where)
	log.InfoContext(ctx, "try next", "command", "oncekeeper get --address "+address+" demo greet 1", "example", "go run ./examples/payments")

	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	var fault error
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", address, err)
	case fault = <-broken:
		log.ErrorContext(ctx, "stopping: the store failed", "error", fault)
	case <-ctx.Done():
		log.InfoContext(ctx, "stopping: calls under way are finished", "within", c.Drain.String())
	}
	stopping()
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Drain)
	defer cancel()
	if err := srv.Shutdown(draining); err != nil {
		log.WarnContext(ctx, "some calls were cut off", "after", c.Drain.String())
	}
	log.InfoContext(ctx, "stopped")
	return errors.Join(fault, <-served)
}

// checkListen refuses an address that others reach where anyone may call, or read
// the tokens on their way.
func (c *serveCmd) checkListen() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q: %w: give host:port", c.Listen, err)
	}
	ip := net.ParseIP(host)
	if host == "localhost" || ip.IsLoopback() || c.Insecure || c.protected() {
		return nil
	}
	if c.known() {
		return fmt.Errorf("--listen %s can be reached from other machines, and tokens would go there for everyone on the way to read: give --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure", c.Listen)
	}
	return fmt.Errorf("--listen %s can be reached from other machines, and anyone who reaches it may call: give --principals (or --jwt-jwks), --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure", c.Listen)
}
