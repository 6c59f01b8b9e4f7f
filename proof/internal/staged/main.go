// Command staged is the service as serve runs it, but for what a proof needs and a
// user must never have: a host's clock that steps, and a rule that is left out. It
// puts the same packages together, and is no part of the product.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/proof/internal/plant"
	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

func main() {
	where := flag.String("store", "", "pebble:DIR or postgres://…")
	listen := flag.String("listen", "", "address to serve on")
	file := flag.String("clock", "", "file that says how far the host's clock is off, in nanoseconds")
	rule := flag.String("plant", "", "rule to leave out")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *where, *listen, *file, *rule, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, where, listen, file, rule string, log *slog.Logger) error {
	clk := clock.Clock(stepped{Clock: clock.System, file: file})
	store, err := open(ctx, where, rule, clk, log)
	if err != nil {
		return err
	}
	// A store has one clock, so nothing need be left alone for one that is behind.
	srv, err := server.New(server.Config{Store: plant.Hasty(store), Clock: clk, Logger: log})
	if err != nil {
		return err
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	log.Info("listening", "address", lis.Addr().String())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(draining), <-served, store.Close())
}

func open(ctx context.Context, where, rule string, clk clock.Clock, log *slog.Logger) (storage.Store, error) {
	var store storage.Store
	var err error
	dir, isPebble := strings.CutPrefix(where, "pebble:")
	if isPebble {
		store, err = pebble.Open(pebble.Config{Dir: dir, Clock: clk, Logger: log, FS: plant.Files(rule)})
	} else {
		store, err = postgres.Open(ctx, postgres.Config{DSN: where, Logger: log})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return plant.Store(rule, store)
}
