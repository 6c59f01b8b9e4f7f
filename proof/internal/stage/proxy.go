package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// proxy stands before a server or a database, and cuts and slows what goes through it.
type proxy struct {
	mu sync.Mutex // held by what befalls it
	to *toxiproxy.Proxy
}

var proxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())

func newProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	p := &proxy{to: toxiproxy.NewProxy(proxies, upstream, "127.0.0.1:0", upstream)}
	if err := p.to.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func (p *proxy) address() string { return p.to.Listen }

func (p *proxy) end() { p.to.Stop() }

// cut ends every connection and takes no new one for a while, or swallows what goes
// one way before the end.
func (p *proxy) cut(t testing.TB, random *rand.Rand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := between(random, 0, 400*time.Millisecond)
	if random.IntN(2) == 0 {
		p.to.Stop()
		time.Sleep(d)
		if err := p.to.Start(); err != nil {
			t.Errorf("starting a proxy again: %v", err)
		}
		return fmt.Sprintf("cut for %v", d)
	}
	way := ways[random.IntN(len(ways))]
	p.toxic(t, fmt.Sprintf(`{"name": "fault", "type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, way), d)
	return fmt.Sprintf("%s swallowed for %v, then cut", way, d)
}

// delay slows one way for a while.
func (p *proxy) delay(t testing.TB, random *rand.Rand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := between(random, 100*time.Millisecond, 800*time.Millisecond)
	way, by := ways[random.IntN(len(ways))], 5+random.IntN(120)
	p.toxic(t, fmt.Sprintf(`{"name": "fault", "type": "latency", "stream": %q, "attributes": {"latency": %d, "jitter": %d}}`, way, by, by/2), d)
	return fmt.Sprintf("%s slowed by %d ms for %v", way, by, d)
}

// ways are what is sent and what is answered.
var ways = []string{"upstream", "downstream"}

func (p *proxy) toxic(t testing.TB, toxic string, d time.Duration) {
	if _, err := p.to.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Errorf("%s: %v", toxic, err)
		return
	}
	time.Sleep(d)
	if err := p.to.Toxics.RemoveToxic(context.Background(), "fault"); err != nil {
		t.Errorf("taking away %s: %v", toxic, err)
	}
}
