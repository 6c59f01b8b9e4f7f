package opshttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// open serves a port, after change, until the test ends.
func open(t *testing.T, cfg Config, change func(*http.Server)) (*Server, string) {
	t.Helper()
	if cfg.Ready == nil {
		cfg.Ready = func(context.Context) error { return nil }
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	s := New(cfg)
	change(s.http)
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, lis.Addr().String()
}

func unchanged(*http.Server) {}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// closed fails the test unless the other side ends conn, with nothing said.
func closed(t *testing.T, about string, conn net.Conn) {
	t.Helper()
	text, err := io.ReadAll(conn)
	if fault := net.Error(nil); errors.As(err, &fault) && fault.Timeout() {
		t.Errorf("%s is left open", about)
	}
	if strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("%s is answered %q", about, text)
	}
}

// settle waits until so many connections are open.
func settle(t *testing.T, s *Server, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s.conns.Load() != want {
		if ctx.Err() != nil {
			t.Fatalf("%d connections are open, want %d", s.conns.Load(), want)
		}
		runtime.Gosched()
	}
}

func TestMoreConnectionsThanTheBoundAreClosedAtOnceAndTheOthersAreAnswered(t *testing.T) {
	s, address := open(t, Config{}, unchanged)
	conns := make([]net.Conn, 0, maxConns)
	for range maxConns {
		conns = append(conns, dial(t, address))
	}
	settle(t, s, maxConns)
	for range 3 {
		closed(t, "one connection too many", dial(t, address))
	}
	settle(t, s, maxConns)
	if _, err := io.WriteString(conns[0], "GET /readyz HTTP/1.1\r\nHost: ops\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conns[0]); err != nil || !strings.HasSuffix(string(answer), "ready\n") {
		t.Errorf("one within the bound is answered %q, %v", answer, err)
	}
	settle(t, s, maxConns-1)
	if _, err := io.WriteString(dial(t, address), "GET /healthz HTTP/1.1\r\nHost: ops\r\n\r\n"); err != nil {
		t.Error(err)
	}
	settle(t, s, maxConns)
}

func TestWhoNeverEndsARequestIsLetGo(t *testing.T) {
	s, address := open(t, Config{}, func(h *http.Server) { h.ReadHeaderTimeout = time.Millisecond })
	conn := dial(t, address)
	_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost:")
	closed(t, "half a request", conn)
	settle(t, s, 0)
}

func TestWhoDoesNotReadTheAnswerIsLetGo(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "long", Help: strings.Repeat("long ", 4<<20)}, func() float64 { return 1 }))
	gone := make(chan struct{})
	_, address := open(t, Config{Metrics: reg}, func(h *http.Server) {
		h.WriteTimeout = 10 * time.Millisecond
		bound := h.ConnState
		h.ConnState = func(conn net.Conn, state http.ConnState) {
			bound(conn, state)
			if state == http.StateClosed {
				close(gone)
			}
		}
	})
	_, _ = io.WriteString(dial(t, address), "GET /metrics HTTP/1.1\r\nHost: ops\r\n\r\n")
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("a connection whose answer nobody reads is kept")
	}
}

func TestEveryWaitOfThePortHasABound(t *testing.T) {
	for _, profiles := range []bool{false, true} {
		h := New(Config{Profiles: profiles, Metrics: prometheus.NewRegistry()}).http
		for what, d := range map[string]time.Duration{
			"the header": h.ReadHeaderTimeout, "the request": h.ReadTimeout, "the answer": h.WriteTimeout, "the next request": h.IdleTimeout,
		} {
			if d <= 0 || d > 2*time.Minute {
				t.Errorf("profiles %t: a connection may take %v for %s", profiles, d, what)
			}
		}
	}
}

// scrapes is a registry whose scrapes last until they are released.
type scrapes struct {
	prometheus.Gatherer
	began   chan struct{}
	release chan struct{}
}

func (s scrapes) Gather() ([]*dto.MetricFamily, error) {
	s.began <- struct{}{}
	<-s.release
	return s.Gatherer.Gather()
}

func TestMoreScrapesAtOnceThanTheBoundAreRefused(t *testing.T) {
	slow := scrapes{prometheus.NewRegistry(), make(chan struct{}), make(chan struct{})}
	_, address := open(t, Config{Metrics: slow}, unchanged)
	codes := make(chan int, maxScrapes)
	get := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for range maxScrapes {
		go func() { codes <- get() }()
		<-slow.began
	}
	if code := get(); code != http.StatusServiceUnavailable {
		t.Errorf("one scrape too many is answered %d, want 503", code)
	}
	close(slow.release)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a scrape within the bound is answered %d, want 200", code)
		}
	}
}
