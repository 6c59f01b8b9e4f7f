package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// proxy stands between a store and its server, and cuts connections where a test
// tells it to.
type proxy struct {
	dsn    string
	server string

	mu sync.Mutex
	// cutIn counts down the messages of clients to go before a cut; below 0: none.
	cutIn int
	// behind: the message reaches the server, and its answer nobody.
	behind  bool
	cuts    int
	cancels int
	dials   int64
	broken  map[net.Conn]bool
}

// newProxy gives a proxy before the server of dsn.
func newProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	dir, err := os.MkdirTemp("", "okproxy")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: filepath.Join(q.Get("host"), ".s.PGSQL.5432"), cutIn: -1, broken: map[net.Conn]bool{}}
	if q.Get("host") == "" {
		p.server = u.Host
	}
	q.Set("host", dir)
	u.Host, u.RawQuery = "", q.Encode()
	p.dsn = u.String()
	lis, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = lis.Close()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	all.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(conn) })
		}
	})
	return p
}

// beside gives the address of p with another host behind it.
func (p *proxy) beside(dir string) string {
	u, err := url.Parse(p.dsn)
	if err != nil {
		panic(err) // newProxy made it
	}
	q := u.Query()
	q.Set("host", q.Get("host")+","+dir)
	u.RawQuery = q.Encode()
	return u.String()
}

// cut ends the connection at the client's nth message from now, before it reaches
// the server or behind that.
func (p *proxy) cut(nth int, behind bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutIn, p.behind, p.cuts = nth, behind, 0
}

func (p *proxy) counts() (cuts, cancels int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts, p.cancels
}

func (p *proxy) dialled() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *proxy) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.mu.Lock()
	p.dials++
	network, address := "tcp", p.server
	p.mu.Unlock()
	if filepath.IsAbs(address) {
		network = "unix"
	}
	server, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var both sync.WaitGroup
	both.Go(func() {
		defer func() { _ = client.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || p.isBroken(client) {
				return // an answer that a cut came before is lost
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		forward, goOn := p.message(client, buf[:n], first)
		if forward {
			if _, err := server.Write(buf[:n]); err != nil {
				break
			}
		}
		if !goOn && !forward {
			break
		}
	}
	if c, ok := server.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, client)
	_ = server.Close()
	both.Wait()
}

func (p *proxy) isBroken(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken[client]
}

// message says what becomes of a message. Those of making a connection do not
// count.
func (p *proxy) message(client net.Conn, data []byte, first bool) (forward, goOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		if len(data) >= 8 && binary.BigEndian.Uint32(data[4:]) == 80877102 {
			p.cancels++
		}
		return true, true
	}
	if p.cutIn < 0 || p.broken[client] {
		return !p.broken[client] || p.behind, true
	}
	if p.cutIn--; p.cutIn >= 0 {
		return true, true
	}
	p.cuts++
	p.broken[client] = true
	if !p.behind {
		_ = client.Close()
		return false, false
	}
	return true, true
}
