package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/oncekeeper/oncekeeper/metrics/storemetrics"
	"github.com/oncekeeper/oncekeeper/migrations"
	"github.com/oncekeeper/oncekeeper/server/opshttp"
	"github.com/oncekeeper/oncekeeper/storage"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
	"github.com/oncekeeper/oncekeeper/storage/postgres"
)

// opsFlags are of the port for those who run the service.
type opsFlags struct {
	HTTP  string `name:"http" env:"ONCEKEEPER_HTTP" default:"127.0.0.1:8461" help:"Address of probes and metrics: /healthz, /readyz, /metrics; off for none."`
	Pprof bool   `env:"ONCEKEEPER_PPROF" help:"Serve profiles there too, at /debug/pprof."`
}

func (f *opsFlags) off() bool { return f.HTTP == "" || f.HTTP == "off" }

// check refuses profiles that others reach: they show what is in memory. Probes and
// metrics hold no key.
func (f *opsFlags) check(insecure bool) error {
	if f.off() {
		return nil
	}
	host, _, err := net.SplitHostPort(f.HTTP)
	if err != nil {
		return fmt.Errorf("--http %q: %w: give host:port, or off", f.HTTP, err)
	}
	if f.Pprof && !insecure && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("--http %s can be reached from other machines, and --pprof shows them what is in memory: listen on 127.0.0.1, or say --insecure", f.HTTP)
	}
	return nil
}

// registry has the numbers of the process and of store; the server's come by
// themselves.
func registry(store storage.Store) (*prometheus.Registry, error) {
	all := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	switch s := store.(type) {
	case *pebble.Store:
		all = append(all, storemetrics.Pebble(s))
	case *postgres.Store:
		all = append(all, storemetrics.Postgres(s))
	}
	reg := prometheus.NewRegistry()
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return reg, nil
}

// readiness asks store whether it can be written to and still has a schema that is
// known. It tells why not in words without a secret, and logs the rest.
func readiness(store storage.Store, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		err := store.Ping(ctx)
		if pg, is := store.(*postgres.Store); is && err == nil {
			err = pg.CheckSchema(ctx)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, migrations.ErrOldSchema):
			return migrations.ErrOldSchema
		case errors.Is(err, migrations.ErrNewSchema):
			return migrations.ErrNewSchema
		}
		log.DebugContext(ctx, "not ready", "error", err)
		return errors.New("the store cannot be reached, or cannot be written to")
	}
}

// serve serves the port until close is called; with the port off, neither does
// anything. stopping has it say that the service is not ready any more.
func (f *opsFlags) serve(ctx context.Context, store storage.Store, reg *prometheus.Registry, log *slog.Logger) (stopping, end func(), err error) {
	if f.off() {
		return func() {}, func() {}, nil
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", f.HTTP)
	if err != nil {
		return nil, nil, fmt.Errorf("listening on %s for probes and metrics: %w: give another --http, or --http off", f.HTTP, err)
	}
	port := opshttp.New(opshttp.Config{Ready: readiness(store, log), Metrics: reg, Profiles: f.Pprof})
	served := make(chan error, 1)
	go func() { served <- port.Serve(lis) }()
	log.InfoContext(ctx, "probes and metrics are served", "http", lis.Addr().String(), "paths", "/healthz /readyz /metrics", "pprof", f.Pprof)
	return port.Stopping, func() {
		_ = port.Close()
		if err := <-served; err != nil {
			log.WarnContext(ctx, "the port for probes and metrics ended", "error", err)
		}
	}, nil
}
