package server

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// What strangers may have of a server, before it is known who they are.
const (
	// beginTimeout is how long the handshake of TLS and HTTP/2 may take.
	beginTimeout = 10 * time.Second
	// writeTimeout is how long a connection may take nothing of what it is sent.
	writeTimeout = 20 * time.Second
	// idleTimeout is how long a connection may be open with no call.
	idleTimeout = 10 * time.Minute
	// maxHeaders is in bytes, of each call: room for a JWT, a trace and its baggage.
	maxHeaders = 32 << 10
	// maxStreams are calls at once on one connection.
	maxStreams = 1024
	// strangerBytes is how much one connection may send before a call of it is known,
	// and strangersBytes how much all such together; strangerSpared is what each may in
	// any case.
	strangerBytes  = 32 << 20
	strangersBytes = 256 << 20
	strangerSpared = 64 << 10
	// strangersCalls is how many calls at once are taken of connections that are nobody's
	// yet, and strangerCallsSpared what each may make in any case.
	strangersCalls      = 16 << 10
	strangerCallsSpared = 8
)

// connections bounds those that are open, in all and from one address, and what is
// read of them while nobody knows whose they are. Past a bound a connection is closed
// at once: whoever asks is told sooner than by waiting, and nothing piles up.
type connections struct {
	max int
	// judged: it is asked who calls.
	judged bool
	clock  clock.Clock
	log    *slog.Logger

	// strange is what was sent on open connections that are nobody's yet, in bytes.
	strange atomic.Int64
	// strangeCalls are under way on such.
	strangeCalls atomic.Int64
	open         atomic.Int64
	refused      atomic.Int64
	// untaken is what was answered and not yet written, in bytes; mayLeave is how much
	// of it one connection may have, and mayLeaveAll all.
	untaken               atomic.Int64
	mayLeave, mayLeaveAll int64

	mu   sync.Mutex
	from map[string]int
	said time.Duration
}

// bound gives lis with the bounds.
func (c *connections) bound(lis net.Listener) net.Listener {
	return &boundListener{Listener: lis, all: c}
}

type boundListener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(raw.RemoteAddr())
		if l.all.enter(host) {
			return &connection{Conn: raw, host: host, all: l.all}, nil
		}
		_ = raw.Close()
		l.all.tell("connections are refused: there are too many")
	}
}

// hostOf gives whose addr is: of IPv6 the first 64 bits, since a host may have all
// addresses behind them.
func hostOf(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String() // of what is no network
	}
	host := at.Addr().Unmap()
	if host.Is4() {
		return host.String()
	}
	return netip.PrefixFrom(host, 64).Masked().String()
}

// enter makes room for a connection. One address has three quarters of the room at
// the most, so that others find some.
func (c *connections) enter(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int(c.open.Load()) >= c.max || c.from[host] >= max(1, c.max*3/4) {
		return false
	}
	c.open.Add(1)
	c.from[host]++
	return true
}

func (c *connections) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.Add(-1)
	if c.from[host]--; c.from[host] == 0 {
		delete(c.from, host)
	}
}

// tell logs it, once in a while however often it comes.
func (c *connections) tell(what string) {
	n := c.refused.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Monotonic(); n == 1 || now >= c.said {
		c.said = now + faultInterval
		c.log.Warn(what, "closed", n, "open", c.open.Load(), "most", c.max)
	}
}

// connection is one that counts what is read of it.
type connection struct {
	net.Conn
	host   string
	all    *connections
	closed sync.Once

	// known: nothing is counted any more.
	known atomic.Bool
	// strangeCalls began while nobody knew whose it is, and are under way.
	strangeCalls atomic.Int64

	mu sync.Mutex
	// strange is what was read while nobody knew whose it is.
	strange int64
	// untaken is what was answered and not yet written, until it is gone.
	untaken int64
	gone    bool
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.all.judged && !c.known.Load() && !c.count(int64(n)) {
		c.all.tell("connections are closed: they send much, and it is not known who they are")
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// count says whether n bytes more may be read.
func (c *connection) count(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.Load() {
		return true
	}
	c.strange += n
	all := c.all.strange.Add(n)
	return c.strange <= strangerSpared || c.strange <= strangerBytes && all <= strangersBytes
}

// isKnown has nothing counted any more.
func (c *connection) isKnown() {
	if c.known.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Store(true)
	c.all.strange.Add(-c.strange)
	c.strange = 0
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.closed.Do(func() {
		c.isKnown()
		c.takeAll()
		c.all.leave(c.host)
	})
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn: a call finds its connection by it, through TLS too.
func (c *connection) RemoteAddr() net.Addr { return &address{Addr: c.Conn.RemoteAddr(), of: c} }

type address struct {
	net.Addr
	of *connection
}

// connectionIsKnown says that a call on ctx's connection is somebody's.
func connectionIsKnown(ctx context.Context) {
	if conn := connectionOf(ctx); conn != nil {
		conn.isKnown()
	}
}
