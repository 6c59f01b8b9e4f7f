package receipttest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy is a Cutter that stands before a Postgres server. A request is what the
// server answers with being ready again.
type Proxy struct {
	// Address is that of the database, through the proxy.
	Address string

	network, server string

	mu sync.Mutex
	// cutIn counts down the requests to go before a cut; below 0: none.
	cutIn         int
	behind        bool
	cuts, cancels int
	commits       *heldCommit
	down          bool
	conns         map[net.Conn]bool
}

// NewProxy gives a proxy before the server of address, a URL, until the test ends.
func NewProxy(t *testing.T, address string) *Proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "okcut")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{cutIn: -1, network: "tcp", server: u.Host, conns: map[net.Conn]bool{}}
	q := u.Query()
	if host := q.Get("host"); host != "" {
		p.network, p.server = "unix", filepath.Join(host, ".s.PGSQL.5432")
	}
	q.Set("host", dir)
	u.Host, u.RawQuery = "", q.Encode()
	p.Address = u.String()
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.Down(true)
		all.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Cut is Cutter's.
func (p *Proxy) Cut(nth int, behind bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutIn, p.behind, p.cuts = nth, behind, 0
}

// Cuts is Cutter's.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Cancels says how many statements were asked to be cancelled.
func (p *Proxy) Cancels() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancels
}

// Down ends all connections, and refuses new ones until it is taken back.
func (p *Proxy) Down(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for conn := range p.conns {
		if down {
			_ = conn.Close()
		}
	}
}

// heldCommit is a COMMIT on its way.
type heldCommit struct {
	arrived, goOn, applied chan struct{}
	mute                   bool
}

// HoldCommit stops the next COMMIT before it reaches the server. Arrived is closed
// when it is there. Release lets it pass, and returns when the server has answered;
// mute keeps the answer from the client, whose connection stays open.
func (p *Proxy) HoldCommit() (arrived <-chan struct{}, release func(mute bool)) {
	held := &heldCommit{arrived: make(chan struct{}), goOn: make(chan struct{}), applied: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = held
	return held.arrived, func(mute bool) {
		held.mute = mute
		close(held.goOn)
		<-held.applied
	}
}

// link is one client's way to the server.
type link struct {
	client, server net.Conn
	mu             sync.Mutex
	// cut: the next answer does not reach the client, whose connection ends with it;
	// held: it ends that.
	cut  bool
	held *heldCommit
}

func (p *Proxy) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial(p.network, p.server)
	if err != nil || !p.enter(client) {
		return
	}
	defer func() { p.leave(client); _ = server.Close() }()
	l := &link{client: client, server: server}
	start, err := message(client, 0)
	if err != nil {
		return
	}
	if len(start) >= 8 && binary.BigEndian.Uint32(start[4:]) == 80877102 {
		p.mu.Lock()
		p.cancels++
		p.mu.Unlock()
	}
	if _, err := server.Write(start); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(l.answer)
	for {
		m, err := message(client, 1)
		if err != nil || !p.request(l, m) {
			break
		}
		if _, err := server.Write(m); err != nil {
			break
		}
	}
	cut, held := l.state()
	if held != nil {
		<-held.applied
	}
	if !cut {
		_ = server.Close()
	}
	back.Wait()
}

func (p *Proxy) enter(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down {
		p.conns[client] = true
	}
	return !p.down
}

func (p *Proxy) leave(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
}

// request says whether a client's message goes on to the server.
func (p *Proxy) request(l *link, m []byte) bool {
	if m[0] != 'Q' && m[0] != 'S' {
		return true
	}
	p.mu.Lock()
	held := p.commits
	if m[0] != 'Q' || !bytes.EqualFold(bytes.TrimRight(m[5:], "\x00"), []byte("commit")) {
		held = nil
	}
	if held != nil {
		p.commits = nil
		p.mu.Unlock()
		close(held.arrived)
		<-held.goOn
		l.mu.Lock()
		l.held = held
		l.mu.Unlock()
		return true
	}
	defer p.mu.Unlock()
	if p.cutIn < 0 {
		return true
	}
	if p.cutIn--; p.cutIn >= 0 {
		return true
	}
	p.cuts++
	if !p.behind {
		return false
	}
	l.mu.Lock()
	l.cut = true
	l.mu.Unlock()
	return true
}

func (l *link) state() (cut bool, held *heldCommit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.held
}

// answer passes the server's messages on. What a cut is behind is read up to where
// the server is ready again: it has done what it was asked.
func (l *link) answer() {
	defer func() {
		if _, held := l.state(); held != nil {
			close(held.applied)
		}
		_ = l.client.Close()
		_ = l.server.Close()
	}()
	for {
		m, err := message(l.server, 1)
		if err != nil {
			return
		}
		cut, held := l.state()
		if ready := m[0] == 'Z'; ready && cut {
			return
		} else if ready && held != nil {
			l.mu.Lock()
			l.held = nil
			l.mu.Unlock()
			close(held.applied)
		}
		if cut || held != nil && held.mute {
			continue
		}
		if _, err := l.client.Write(m); err != nil {
			return
		}
	}
}

// message reads one: its type, of one byte or none, its length, and the rest.
func message(from io.Reader, typed int) ([]byte, error) {
	head := make([]byte, typed+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[typed:]))
	m := make([]byte, typed+length)
	copy(m, head)
	_, err := io.ReadFull(from, m[len(head):])
	return m, err
}
