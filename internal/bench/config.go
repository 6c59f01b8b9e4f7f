package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
)

// The names of the loads, in the order of a report.
const (
	Empty     = "empty calls"
	Pairs     = "pairs"
	Replays   = "replays"
	Coalesced = "coalesced pairs"
	Batches   = "pairs in batches"
	Plain     = "plain SQL pairs"
)

// BatchItems is how many pairs the load Batches has in one call.
const BatchItems = 64

// PlainPair is a first call of a key done without the service. It may be called from
// any goroutine.
type PlainPair func(ctx context.Context, id string, response []byte) error

// Config is what is measured, and for how long.
type Config struct {
	// Conns lead to the service; calls take turns on them.
	Conns []*grpc.ClientConn
	// ServerPID is the process of the service on this machine; 0: it is elsewhere, and
	// its work is not counted.
	ServerPID int
	// Plain is measured beside the service where it is given, by as many callers.
	Plain PlainPair

	// Callers is how many call at once, each the next when the last was answered.
	Callers int
	// ResponseBytes are kept with each key.
	ResponseBytes int
	// Keys are in the store before it is measured, over so many Tenants.
	Keys, Tenants int

	Turns
}

// Turns is for how long loads are measured.
type Turns struct {
	// Slice is how long a load has its turn, and Rounds how often.
	Slice  time.Duration
	Rounds int

	// Progress is told what is being done.
	Progress func(what string)
}

// Validate says what cannot be measured.
func (c Config) Validate() error {
	switch {
	case c.Callers < 1 || c.Callers > 1<<16:
		return errors.New("callers are 1 to 65,536")
	case c.ResponseBytes < 0 || c.ResponseBytes > 1<<20:
		return errors.New("a response has 0 to 1,048,576 bytes")
	case c.Keys < 1 || c.Tenants < 1:
		return errors.New("there is at least one key, and one tenant")
	case c.Slice <= 0 || c.Slice > time.Minute || c.Rounds < 1:
		return errors.New("a slice is above zero and up to a minute, and there is at least one round")
	default:
		return nil
	}
}

// keeps is how long the service keeps what was measured: the shortest that it does,
// so that its sweeper can delete it.
const keeps = time.Second

// newSpace names a run's keys apart from those of any other.
func newSpace() string { return "bench-" + rand.Text()[:10] }

func tenantOf(space string, n, tenants int) string { return fmt.Sprintf("%s-%d", space, n%tenants) }
