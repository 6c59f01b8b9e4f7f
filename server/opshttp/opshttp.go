// Package opshttp is the port for those who run the service: probes, metrics and
// profiles. It knows neither the service nor its store; what it asks is given to it.
package opshttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncekeeper/oncekeeper/clock"
)

// Config is what the port is made of.
type Config struct {
	// Ready gives nil where calls can be answered, else why not, in words that may be
	// told to whoever asks. It should heed ctx. Required.
	Ready func(ctx context.Context) error
	// Metrics are told at /metrics. Required.
	Metrics prometheus.Gatherer
	// Profiles has /debug/pprof answer.
	Profiles bool
	// Clock of how long an answer of Ready is good for. Default: clock.System.
	Clock clock.Clock
}

// Server answers on the port. It serves once.
type Server struct {
	http  *http.Server
	probe *probe
	conns atomic.Int64
}

const (
	// maxScrapes at once: each reads everything.
	maxScrapes = 4
	// maxConns at once: each may hold what a scrape gave until its reader has taken it.
	maxConns = 128
)

// New makes a server.
func New(cfg Config) *Server {
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	s := &Server{probe: newProbe(cfg.Ready, cfg.Clock)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: 10 * time.Second}))
	answering := 30 * time.Second
	if cfg.Profiles {
		answering = 2 * time.Minute // a profile takes half a minute unless told otherwise
		// Not cmdline: it may have an address with a password in it.
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: answering, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ConnState: s.bound,
	}
	return s
}

// bound closes at once what comes past maxConns: whoever asks is told sooner than by
// waiting, and nothing piles up.
func (s *Server) bound(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.conns.Add(1) > maxConns {
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if err := s.probe.ask(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "not ready: %v\n", err)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// Serve answers on lis until Close; it gives nil then.
func (s *Server) Serve(lis net.Listener) error {
	if err := s.http.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Stopping has /readyz say so from now on, and ask nothing any more.
func (s *Server) Stopping() { s.probe.stop() }

// Close ends the port and what is under way on it.
func (s *Server) Close() error { return s.http.Close() }
